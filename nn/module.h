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
template <class M>
concept IsModule = std::derived_from<std::remove_cvref_t<M>, Module>;
/** Checks an assignment to a layer's handle. Errors: StateError. */
MZ_API void check_assigned(const Module& handle, const Module& other);
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
  // No handle knows its address, or whether it is a member of a net.
  /** Constructs another handle to the same module. */
  Module(const Module& other) noexcept = default;
  /** Makes a handle of type Module refer to another module. For other handles: Model. */
  Module& operator=(const Module& other) noexcept = default;

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
  /** Replaces a child by another module. `member` is the net's handle to the child, and refers to
   *  the new module afterwards: `net.replace(net.head, nn::Linear{16, 3})`. The new module gets all
   *  names that the child has in this module. Returns `member`.
   *  A net that calls another handle to the old module, such as that of a copy of the net, throws
   *  StateError: call replace() with this handle and the new module, too. Optimizers constructed
   *  earlier still hold the old parameters.
   *  Errors: ValueError if neither `member` nor `module` is a child of this module, and for a
   * module that contains this one; StateError while mixed precision is attached to the old module,
   * and for a container. */
  template <class M>
  requires(detail::IsModule<M> && !std::is_const_v<M> && !std::same_as<M, Module>)
  M& replace(M& member, const std::type_identity_t<M>& module) {
    check_no_container("replace");
    replace_children(member, module);
    if (!member.is_same(module)) refer_to(member, module);
    return member;
  }
  /** Does not compile: members of a net are not replaced by name. */
  template <class M> M& replace(std::string_view, M&& member) {
    static_assert(
        !detail::IsModule<M>,
        "replace() takes the member itself: net.replace(net.head, nn::Linear{8, 3}); only "
        "containers replace by name");
    return member;
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
  /** Marks this module as one that computes something else in training mode. A net that calls it
   *  without add() is logged even if it has no tensors. */
  void set_uses_mode();
  /** Implements add(), also for containers. */
  template <class M> std::remove_cvref_t<M> add_member(std::string_view name, M&& member) {
    add_child(name, member);
    return std::forward<M>(member);
  }
  /** Implements replace() of a container, whose own handle to the child is not changed. Errors: as
   *  replace(), and ValueError for an unknown name. */
  void replace_child(std::string_view name, const Module& member);
  /** Makes a handle refer to another module of its type. */
  template <class M> static void refer_to(M& handle, const M& module) {
    M copy(module);  // `module` may be a part of what the handle holds
    const auto move = [&]() noexcept {
      std::destroy_at(&handle);
      std::construct_at(&handle, std::move(copy));
    };
    move();
  }

 private:
  void check_no_container(const char* call) const;
  void check_no_cycle(const char* call, std::string_view name, const Module& member) const;
  void add_child(std::string_view name, const Module& member);
  void count_as_child(std::string name) const noexcept;
  /** Records the parameters of `later` for optimizers that hold those of `earlier`. */
  static void record_late(const Module& earlier, std::string_view name, const Module& later,
                          std::string_view call);
  void replace_children(const Module& member, const Module& module);

  Ref<ModuleState> state_;
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
  std::atomic<std::int32_t> registrations{0};  // number of registrations as a child
  /** Modules that its calls logged because they were not added to it. */
  mutable std::vector<std::string> logged_unadded;
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
/** Returns a module's kind and settings, such as "Linear(4, 1)". */
MZ_API std::string described(const ModuleState& module);
/** Checks that a module is called by no other module, or by one whose tree may contain it. Errors:
 *  StateError for a module that was replaced. Logs a module that no module has added and that has
 *  trained parameters, or computes something else in training mode; once for each net that calls
 *  it. */
MZ_API void check_caller(const ModuleState& module);

/** The call of a module on this thread. */
class MZ_API ModuleCall {
 public:
  /** Begins the call. Errors: as check_caller(). */
  explicit ModuleCall(const ModuleState& module);
  ~ModuleCall();
  ModuleCall(const ModuleCall&) = delete;
  ModuleCall& operator=(const ModuleCall&) = delete;

 private:
  friend MZ_API void check_caller(const ModuleState& module);

  const ModuleState& module_;
  const ModuleCall* caller_;
  ModulePathScope path_;
};

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
