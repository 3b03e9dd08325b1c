// Module: a handle to the shared state of a layer or net: its parameters, buffers, children and
// training mode. Copies of a handle refer to the same module.
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "../tensor/core/tensor.h"
#include "amp_hooks.h"
#include "call_hooks.h"
#include "member.h"
#include "name_index.h"
#include "state_dict.h"

namespace mezzo::nn::detail {

/** Returns the type's name as the compiler spells it, such as "mezzo::nn::Linear". */
template <class T> constexpr std::string_view type_name() {
  // g++: "... type_name() [with T = mezzo::nn::Linear; std::string_view = ...]"
  // clang: "... type_name() [T = mezzo::nn::Linear]"
  constexpr std::string_view text = __PRETTY_FUNCTION__;
  constexpr std::size_t begin = text.find("T = ") + 4;
  constexpr std::size_t semicolon = text.find(';', begin);
  constexpr std::size_t end = semicolon != std::string_view::npos ? semicolon : text.rfind(']');
  return text.substr(begin, end - begin);
}

/** Returns the name without namespaces, enclosing functions and template arguments, such as
 *  "Linear". */
constexpr std::string_view short_name(std::string_view full) {
  std::size_t end = full.size();
  if (end > 0 && full[end - 1] == '>') {
    int depth = 0;
    do {
      --end;
      depth += (full[end] == '>') - (full[end] == '<');
    } while (end > 0 && depth > 0);
  }
  const std::string_view name = full.substr(0, end);
  const std::size_t colons = name.rfind("::");
  return colons == std::string_view::npos ? name : name.substr(colons + 2);
}

}  // namespace mezzo::nn::detail

namespace mezzo::comm {
class Communicator;
}

namespace mezzo::nn {

struct ModuleState;
class Module;

namespace detail {
/** Calls check_not_replaced() and logs the members of a net that were not added to it, once. */
MZ_API void check_call(const ModuleState& module);
}  // namespace detail

/** A parameter or buffer and its name. In lists of a whole tree the name is dotted. */
struct NamedTensor {
  /** Name, dotted in lists of a tree. */
  std::string name;
  /** The tensor itself, not a copy. */
  Tensor tensor;
  bool keep_f32 = false;  // mixed precision keeps the tensor in f32 when it converts the module
};

struct NamedModule;

/** A handle to a layer or net. */
class MZ_API Module {
 public:
  // No move: a moved-from handle would refer to no module. Copying a handle copies a pointer.
  /** Constructs another handle to the same module. */
  Module(const Module& other) : state_(other.state_) {
    if (other.place_.kind != detail::HandleKind::plain) set_place_from(other);
  }
  ~Module() {
    if (place_.is_listed()) clear_place();
  }
  /** Rebinds this handle to another module. Assigning a net assigns all its members. Elements of a
   *  container can be swapped and moved.
   *  Errors: StateError for a handle that is a registered member of a net, because parameters() and
   *  save() would still use the old module; replace() changes both. */
  Module& operator=(const Module& other) &;

  // ---- identity ---------------------------------------------------------------------------------
  /** Returns the type's name without namespaces, such as "Linear". */
  std::string_view kind() const;
  /** Returns true if the module was constructed as an M. */
  template <class M> bool is() const { return type() == detail::type_name<M>(); }
  /** Returns true if both handles refer to the same module. */
  bool is_same(const Module& other) const { return state_ == other.state_; }
  /** Returns the module's class as the compiler spells it, such as "mezzo::nn::Linear". */
  std::string_view type() const;
  /** Returns the name that the first parent gave the module; empty for a root. */
  const std::string& name() const;

  // ---- registration, in constructors and in-class initialisers ----------------------------------
  /** Registers `member` as a child under `name` and returns it:
   *    nn::Linear fc1 = add("fc1", nn::Linear{784, 256});
   *  Errors: ValueError for a name that is empty, dotted or already registered, and for a module
   *  that contains this one; StateError for a container (Sequential, ModuleList, ModuleDict) that
   *  is called through a handle of type Module. */
  template <detail::IsModule M> std::remove_cvref_t<M> add(std::string_view name, M&& member) {
    check_no_container("add");
    return add_member(name, std::forward<M>(member));
  }
  /** Does not compile: `member` is no module. */
  template <class M> std::remove_cvref_t<M> add(std::string_view, M&& member) {
    static_assert(detail::IsModule<M>,
                  "add() takes a module: a struct that derives from nn::Model<itself>. Use "
                  "add_parameter() or add_buffer() for a tensor");
    return std::forward<M>(member);
  }
  /** Replaces the child `name` by another module, rebinds the members that were handles to it, and
   *  returns the new module: `net.replace("head", nn::Linear{16, 3})`. A handle that the net stores
   *  in a standard container must be assigned the result:
   *  `net.layers[1] = net.replace("1", nn::Linear{16, 3})`. Optimizers constructed earlier still
   *  hold the old parameters.
   *  Errors: ValueError for an unknown name, for a module that contains this one, and for a member
   *  handle of another type; StateError while mixed precision is attached to the old module. */
  template <detail::IsModule M> std::remove_cvref_t<M> replace(std::string_view name, M&& member) {
    check_no_container("replace");
    return replace_member(name, std::forward<M>(member));
  }
  /** Registers a trained leaf, sets its requires_grad flag, and returns it. The same tensor may be
   *  a parameter of several modules. Errors: ValueError for the name, DtypeError for integers,
   *  StateError for the result of an operation. */
  Tensor add_parameter(std::string_view name, const Tensor& value);
  /** Registers a tensor that is saved and moved with the module but not trained, and returns it.
   *  Errors: ValueError for the name. */
  Tensor add_buffer(std::string_view name, const Tensor& value);
  /** Marks a parameter or buffer registered in this module to stay f32 under mixed precision.
   *  Errors: ValueError for an unknown name. */
  void keep_f32(std::string_view name);

  // ---- training mode ----------------------------------------------------------------------------
  /** Sets training mode in the whole tree. In training mode, dropout is active and batch norm uses
   *  the statistics of the batch. Training mode is on after construction. */
  const Module& train(bool on = true) const;
  /** Sets evaluation mode in the whole tree. */
  const Module& eval() const { return train(false); }
  /** Returns true in training mode. */
  bool training() const;

  // ---- tensors ----------------------------------------------------------------------------------
  /** Returns every parameter of the tree once, in order of registration, a module's own before its
   *  children's. */
  std::vector<Tensor> parameters() const;
  /** Returns the parameters with dotted names. A tensor registered twice has its first name. */
  std::vector<NamedTensor> named_parameters() const;
  /** Returns the buffers with dotted names. A tensor registered twice has its first name. */
  std::vector<NamedTensor> named_buffers() const;
  /** Returns the parameters registered in this module itself. */
  const std::vector<NamedTensor>& own_parameters() const;
  /** Returns the buffers registered in this module itself. */
  const std::vector<NamedTensor>& own_buffers() const;
  /** Returns a parameter by its dotted name. Errors: ValueError with the nearest names. */
  Tensor parameter(std::string_view path) const;
  /** Returns a buffer by its dotted name. Errors: ValueError with the nearest names. */
  Tensor buffer(std::string_view path) const;
  /** Returns the number of elements of all parameters, each parameter counted once. */
  std::int64_t num_parameters() const;

  // ---- modules ----------------------------------------------------------------------------------
  /** Returns the direct children. */
  std::vector<NamedModule> children() const;
  /** Returns this module and all modules below, parents first, each module once. */
  std::vector<Module> modules() const;
  /** Returns the same modules with dotted names. The name of this module is empty. */
  std::vector<NamedModule> named_modules() const;
  /** Returns a module of the tree by its dotted name; an empty name means this module. Errors:
   *  ValueError with the nearest names. */
  Module child(std::string_view path) const;
  /** Calls f(Module) on every module of the tree once, children before their parent. */
  template <class F> const Module& apply(F&& f) const;

  // ---- conversion of all tensors ----------------------------------------------------------------
  /** Converts every floating parameter (with its gradient) and buffer. Tensors keep their
   *  identity, so optimizers constructed earlier stay valid. Errors: DtypeError for an integral
   *  dtype. */
  const Module& to(DType dtype) const;
  /** Moves every parameter (with its gradient) and buffer. Errors: DeviceError. */
  const Module& to(Device device) const;
  /** Gives every parameter (with its gradient) and buffer of 4 or 5 dimensions the strides of a
   *  memory format. Values do not change. Convolutions with channels-last weights return
   *  channels-last results. Call it before constructing optimizers, because their state takes the
   *  memory format of the parameters at that time. */
  const Module& to(MemoryFormat format) const;
  /** Sets whether the parameters of the tree require gradients; off freezes them. */
  const Module& requires_grad_(bool on = true) const;
  /** Turns off gradients for all parameters of the tree. */
  const Module& freeze() const { return requires_grad_(false); }
  /** Clears the gradients of all parameters, or overwrites them with zeros. */
  void zero_grad(bool set_to_none = true) const;

  // ---- saving and loading -----------------------------------------------------------------------
  /** Returns copies of every parameter and buffer under PyTorch's dotted names, in order of
   *  registration. A tensor registered twice appears under both names, as one tensor. */
  StateDict state_dict() const;
  /** Writes values into the tensors, converted to their dtype and device. A name may be missing if
   *  its tensor is also registered under a name that is present.
   *  Errors: ValueError that lists all missing and unexpected names and wrong shapes; nothing is
   *  written then. Shapes and kinds (floating, integral) must match even if strict is off. */
  LoadReport load_state_dict(const StateDict& values, const LoadOptions& options = {}) const;
  /** Checks and converts values as load_state_dict() does. Returns the load, which writes them when
   *  it is called. */
  StagedLoad stage(const StateDict& values, const LoadOptions& options = {}) const;
  /** Throws if load_state_dict() would throw, and changes nothing. */
  void check_state_dict(const StateDict& values, const LoadOptions& options = {}) const {
    (void)stage(values, options);
  }

  // ---- hooks on calls ---------------------------------------------------------------------------
  /** Calls `hook` before every forward of this module, before mixed precision casts the arguments;
   *  hooks run in order of registration. A module with hooks does not run fused with others. The
   *  result removes the hook; dropping it keeps the hook.
   *    auto handle = net.fc1.register_forward_pre_hook(
   *        [](const nn::Module&, std::vector<Tensor>& inputs) { inputs[0] = relu(inputs[0]); });
   *  Errors: calls throw ValueError if a hook changes the number of tensors. */
  HookHandle register_forward_pre_hook(ForwardPreHook hook) const;
  /** Calls `hook` after every forward of this module, after mixed precision has cast the result.
   *  Otherwise as register_forward_pre_hook. */
  HookHandle register_forward_hook(ForwardHook hook) const;

  // ---- attachments of mixed precision -----------------------------------------------------------
  /** Sets the hooks around this module's calls; null removes them. Copies of the handle share
   *  them. */
  void set_call_wrapper(std::shared_ptr<CallWrapper> wrapper) const;
  /** Returns the hooks around this module's calls. */
  const std::shared_ptr<CallWrapper>& call_wrapper() const;
  /** Returns true if casts or hooks run around this module's calls, which a fused op would leave
   *  out. */
  bool wraps_calls() const;
  /** Sets the rule by which this module's own tensors are saved and loaded; null means unchanged
   *  values. */
  void set_state_rule(std::shared_ptr<const StateRule> rule) const;
  /** Returns the rule by which this module's own tensors are saved and loaded. */
  const std::shared_ptr<const StateRule>& state_rule() const;
  /** Sets the session that this module belongs to, or null. */
  void set_attached_to(const AttachedSession* session) const;
  /** Returns the session that this module belongs to, or null. */
  const AttachedSession* attached_to() const;
  /** Returns true for affine batch norms, which some levels of mixed precision keep in f32. */
  bool keeps_f32_under_amp() const;
  /** Returns true for a module that runs another model on several devices or processes. Such a
   *  module must be constructed after mixed precision was initialised for the inner model. */
  bool is_parallel_wrapper() const;

  /** Returns the shared state. */
  ModuleState& state() const { return *state_; }

  /** Returns the tree as text, one line per module: name, kind, settings, tensors, number of
   *  parameters. */
  MZ_API friend std::string str(const Module& module);
  MZ_API friend std::ostream& operator<<(std::ostream& out, const Module& module);

 protected:
  /** Constructs a module of the named type. */
  explicit Module(std::string_view type);
  /** Sets the settings that are printed for the layer, such as "784, 256". */
  void set_summary(std::string summary);
  /** Sets the flag that keeps_f32_under_amp() returns. */
  void set_keeps_f32_under_amp(bool on);
  /** Sets the flag that is_parallel_wrapper() returns. */
  void set_parallel_wrapper(bool on);
  /** Marks this module as a container. Its members can be added and replaced through the
   *  container's own type only. */
  void set_container();
  /** Marks this module as one that computes something else in training mode. A net that holds it
   *  without add() gets the warning for such members even if it has no tensors. */
  void set_uses_mode();
  /** Implements add(), also for containers. */
  template <class M> std::remove_cvref_t<M> add_member(std::string_view name, M&& member) {
    using Type = std::remove_cvref_t<M>;
    add_child(name, member);
    if constexpr (std::is_lvalue_reference_v<M> && !std::is_const_v<std::remove_reference_t<M>>)
      static_cast<Module&>(member).become_member(*this, name, detail::handle_type<Type>());
    return returning_copy(Type(std::forward<M>(member)), *this, name);
  }
  /** Implements replace(), also for containers. */
  template <class M> std::remove_cvref_t<M> replace_member(std::string_view name, M&& member) {
    using Type = std::remove_cvref_t<M>;
    replace_child(name, member, detail::handle_type<Type>());
    return returning_copy(Type(std::forward<M>(member)), *this, name);
  }
  /** Makes an element of a container's list a member, which only replace() can change. */
  template <class M> void pin(std::string_view name, M& element) const {
    static_cast<Module&>(element).become_element(*this, name, detail::handle_type<M>());
  }

 private:
  template <class Derived> friend class Model;
  friend void detail::check_call(const ModuleState& module);

  void check_no_container(const char* call) const;
  void check_no_cycle(const char* call, std::string_view name, const Module& member) const;
  void add_child(std::string_view name, const Module& member);
  void count_as_child(std::string name) const noexcept;
  /** Records the parameters of `later` for optimizers that hold those of `earlier`. */
  static void record_late(const Module& earlier, std::string_view name, const Module& later,
                          std::string_view call);
  void replace_child(std::string_view name, const Module& member, const detail::HandleType& type);

  /** Returns `member` marked as the result of add(), so that the caller's copy of it becomes a
   *  member or a result of `owner`. */
  template <class M> static M returning_copy(M member, const Module& owner, std::string_view name) {
    static_cast<Module&>(member).mark_returning(owner, name, detail::handle_type<M>());
    return member;
  }

  // Bookkeeping of member handles (member.cpp).
  void mark_returning(const Module& owner, std::string_view name, const detail::HandleType& type);
  void become_member(const Module& owner, std::string_view name, const detail::HandleType& type);
  void become_element(const Module& owner, std::string_view name, const detail::HandleType& type);
  void set_place_from(const Module& other);
  void clear_place();
  std::ptrdiff_t member_offset_from(const Module& other) const;
  bool may_be_assigned(const Module& other) const;
  std::vector<Module*> members_named(std::string_view name, const Module& child) const;
  void record_object(std::size_t size);
  void record_object();
  void clear_object() const;
  static void report_unadded(const ModuleState& net);
  static void report_unadded_below(const Module& root);
  void find_owner();
  void set_listed(detail::HandleKind kind, const Ref<detail::MemberTable>& table,
                  std::ptrdiff_t offset, std::size_t child);

  Ref<ModuleState> state_;
  detail::HandlePlace place_;
};

/** A module and its name. In lists of a whole tree the name is dotted. */
struct NamedModule {
  /** Name, dotted in lists of a tree; empty for the root of the tree. */
  std::string name;
  /** Handle to the module. */
  Module module;
};

/** The state that all handles to a module share. */
struct MZ_API ModuleState final : RefCounted {
  ModuleState() = default;
  ~ModuleState();

  std::string name;       // given by the first parent; empty for a root
  std::string_view type;  // static text
  std::string summary;    // settings, as printed
  /** Parameters registered in this module itself, in order of registration. */
  std::vector<NamedTensor> parameters, buffers;  // buffers, likewise
  /** Direct children, in order of registration. */
  std::vector<NamedModule> children;
  detail::NameIndex names;  // of the parameters, buffers and children
  bool container = false;   // members are added and replaced by the container's own type only
  bool replaced = false;    // replaced by replace(), and without a parent
  bool uses_mode = false;   // computes something else in training mode
  std::atomic<detail::Unadded> unadded{detail::Unadded::none};  // members that were not added
  std::atomic<std::int32_t> registrations{0};  // number of registrations as a child
  std::atomic<const void*> object{nullptr};    // handle last constructed, copied to or assigned
  std::size_t object_size = 0;                 // bytes from `object` to the end of its net
  Ref<detail::MemberTable> members;            // null before the first child is added
  ModuleState* next_destroyed = nullptr;       // link in the list of pending destructions
  bool training = true;                        // training mode; off: evaluation mode
  bool keeps_f32_under_amp = false;            // affine batch norm
  bool parallel_wrapper = false;               // runs another model on several devices or processes
  std::shared_ptr<CallWrapper> call_wrapper;   // casts around calls; null: none
  HookList<ForwardPreHook> forward_pre_hooks;  // called before forward
  HookList<ForwardHook> forward_hooks;         // called after forward
  /** How own tensors are saved and loaded; null: unchanged. */
  std::shared_ptr<const StateRule> state_rule;
  const AttachedSession* attached_to = nullptr;  // null: none
  /** The ranks that share a batch norm's statistics in training; null: this process alone. */
  std::shared_ptr<const comm::Communicator> statistics_group;
};

/** Destroys a module's state without recursion, so that a tree may have any depth. */
MZ_API void destroy(ModuleState* module);

namespace detail {
/** Throws StateError if a net calls a module that was replaced. */
MZ_API void check_not_replaced(const ModuleState& module);
/** Returns true if check_call() has something to do. */
inline bool needs_check(const ModuleState& module) {
  return module.replaced || module.unadded.load(std::memory_order_relaxed) == Unadded::unchecked;
}
/** Throws ValueError for an unknown child name, with the nearest names. */
[[noreturn]] MZ_API void refuse_member(std::string_view op, const Module& module,
                                       std::string_view name);
/** Returns the modules of the tree, each once, children before their parents. */
MZ_API std::vector<Module> postorder(const Module& root);
}  // namespace detail

template <class F> const Module& Module::apply(F&& f) const {
  for (const Module& module : detail::postorder(*this)) f(module);
  return *this;
}

}  // namespace mezzo::nn
