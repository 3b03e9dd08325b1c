// Module: a handle to the shared state of a layer or net: its parameters, buffers, children, mode. Copies of a handle are the same module.
// Sees: autograd.
// Read next: model.h (the base of every layer and net: what calling a module does), linear.h (the simplest layer), state_dict.h.
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

#include "../tensor/tensor.h"
#include "attachment.h"
#include "member.h"
#include "name_index.h"
#include "state_dict.h"
#include "type_name.h"

namespace mezzo::nn {

struct ModuleState;
class Module;

/** A parameter or buffer and its name; the name is dotted where a whole tree was asked. */
struct NamedTensor {
  std::string name;
  Tensor tensor;
  bool keep_f32 = false;  // mixed precision leaves it in f32 when it converts the module
};

struct NamedModule;

class MZ_API Module {
 public:
  // No move: a moved-from handle would name no module. Copying one is copying a pointer.
  Module(const Module& other) : state_(other.state_) {
    if (other.place_.kind != detail::HandleKind::plain) take_place(other);
  }
  ~Module() {
    if (place_.kind == detail::HandleKind::member) leave_place();
  }
  /** Makes this a handle to another module.
   *  Errors: StateError for a handle that is a registered member of a net: parameters() and save()
   *  would keep the old module; replace() changes both. A net is assigned with all its members;
   *  elements of a container may be swapped and moved. */
  Module& operator=(const Module& other) &;

  // ---- what it is ------------------------------------------------------------------------------------------------
  /** "Linear": the type's name without namespaces. */
  std::string_view kind() const;
  /** Whether the module was made as an M. */
  template <class M> bool is() const { return type() == detail::type_name<M>(); }
  /** Same module, not merely equal values. */
  bool is_same(const Module& other) const { return state_ == other.state_; }
  /** The name its parent gave it; empty for a root. */
  const std::string& name() const;

  // ---- registration, in constructors and in-class initialisers -------------------------------------------------------
  /** Makes `member` a child under `name` and returns it: `nn::Linear fc1 = add("fc1", nn::Linear{784, 256});`
   *  Errors: ValueError for a name that is empty, dotted or taken, and for a module that contains
   *  this one. StateError for a container (Sequential, ModuleList, ModuleDict) that is called
   *  through a handle of type Module. */
  template <detail::IsModule M> std::remove_cvref_t<M> add(std::string_view name, M&& member) {
    check_no_container("add");
    return add_member(name, std::forward<M>(member));
  }
  /** Puts another module in the place of the child `name`, rebinds the members that were handles to
   *  it, and returns it: `net.replace("head", nn::Linear{16, 3})`. A handle in a container of the
   *  net's own takes the result: `net.layers[1] = net.replace("1", nn::Linear{16, 3})`. Optimizers
   *  keep the parameters they were made with.
   *  Errors: ValueError for an unknown name, for a module that contains this one, and where a
   *  member is a handle of another type; StateError while mixed precision is attached to the old
   *  module. */
  template <detail::IsModule M> std::remove_cvref_t<M> replace(std::string_view name, M&& member) {
    check_no_container("replace");
    return replace_member(name, std::forward<M>(member));
  }
  /** Registers a leaf that is trained and returns it, now requiring a gradient. The same tensor may be a parameter of several modules.
   *  Errors: ValueError for the name, DtypeError for integers, StateError for the result of an operation. */
  Tensor add_parameter(std::string_view name, const Tensor& value);
  /** Registers a tensor that is saved and moved with the module but not trained, and returns it. */
  Tensor add_buffer(std::string_view name, const Tensor& value);
  /** Marks a parameter or buffer of this module's own as one that mixed precision leaves in f32. Errors: ValueError for an unknown name. */
  void keep_f32(std::string_view name);

  // ---- mode ------------------------------------------------------------------------------------------------------
  /** Sets training mode here and in everything below: dropout drops, batch norm uses the batch's statistics. On after construction. */
  const Module& train(bool on = true) const;
  const Module& eval() const { return train(false); }
  bool training() const;

  // ---- tensors ---------------------------------------------------------------------------------------------------
  /** Every parameter of the tree once, in order of registration, a module's own before its children's. */
  std::vector<Tensor> parameters() const;
  /** The same with dotted names; a tensor registered twice goes under its first name. */
  std::vector<NamedTensor> named_parameters() const;
  std::vector<NamedTensor> named_buffers() const;
  /** What was registered in this very module. */
  const std::vector<NamedTensor>& own_parameters() const;
  const std::vector<NamedTensor>& own_buffers() const;
  /** One parameter or buffer by its dotted name. Errors: ValueError with the nearest names. */
  Tensor parameter(std::string_view path) const;
  Tensor buffer(std::string_view path) const;
  /** Number of elements of all parameters, each counted once. */
  std::int64_t num_parameters() const;

  // ---- modules ---------------------------------------------------------------------------------------------------
  std::vector<NamedModule> children() const;
  /** This module and everything below, parents first, each module once. */
  std::vector<Module> modules() const;
  /** The same with dotted names; that of this module is empty. */
  std::vector<NamedModule> named_modules() const;
  /** One module below by its dotted name; empty means this one. Errors: ValueError with the nearest names. */
  Module child(std::string_view path) const;
  /** Calls f(Module) on every module of the tree, each once, children before their parent. */
  template <class F> const Module& apply(F&& f) const;

  // ---- changes to all tensors at once ----------------------------------------------------------------------------------
  /** Converts every floating parameter (with its gradient) and buffer. Tensors keep their identity: optimizers made earlier stay valid.
   *  Errors: DtypeError for an integral dtype. */
  const Module& to(DType dtype) const;
  /** Moves every parameter (with its gradient) and buffer. Errors: DeviceError. */
  const Module& to(Device device) const;
  /** Gives every parameter (with its gradient) and buffer of 4 or 5 dimensions the strides of a memory format; values stay. Convolutions with
   *  channels-last weights have channels-last results. Best done before optimizers are made: what they keep lies as the parameters do then. */
  const Module& to(MemoryFormat format) const;
  /** Whether the parameters of the tree want gradients; off freezes them. */
  const Module& requires_grad_(bool on = true) const;
  const Module& freeze() const { return requires_grad_(false); }
  /** Drops the gradients of all parameters, or overwrites them with zeros. */
  void zero_grad(bool set_to_none = true) const;

  // ---- saving and loading ------------------------------------------------------------------------------------------
  /** Copies of every parameter and buffer under PyTorch's dotted names, in order of registration: training on does not change them. A tensor
   *  registered twice appears under both names, as one tensor. */
  StateDict state_dict() const;
  /** Writes values into the tensors, converted to their dtype and device. A name may be missing when its tensor is also registered under one
   *  that is there.
   *  Errors: ValueError that lists all missing, unexpected and misshapen names at once; nothing is written then. Shapes and kinds (floating,
   *  integral) must fit with strict off too. */
  LoadReport load_state_dict(const StateDict& values, const LoadOptions& options = {}) const;
  /** The load, without the writing: throws what load_state_dict would, and changes nothing before
   *  it is committed. */
  StagedLoad stage_state_dict(const StateDict& values, const LoadOptions& options = {}) const;
  /** Throws what load_state_dict would, and changes nothing. */
  void check_state_dict(const StateDict& values, const LoadOptions& options = {}) const;

  // ---- what mixed precision attaches (AMP.md section 4) -------------------------------------------------------------
  /** What surrounds this module's calls; null removes it. Copies of the handle share it. */
  void set_call_wrapper(std::shared_ptr<CallWrapper> wrapper) const;
  const std::shared_ptr<CallWrapper>& call_wrapper() const;
  /** How this module's own tensors are saved and loaded; null means as they are. */
  void set_state_rule(std::shared_ptr<const StateRule> rule) const;
  const std::shared_ptr<const StateRule>& state_rule() const;
  /** Who attached: null, or the owner's address, which is never looked behind. */
  void set_attached_to(const void* owner) const;
  const void* attached_to() const;
  /** True for affine batch norms: "keep batch norm in f32" means them. */
  bool keeps_f32_under_amp() const;
  /** Runs another model on several devices or processes: it is to be made after mixed precision has seen that one. */
  bool is_parallel_wrapper() const;

  ModuleState& state() const { return *state_; }

  /** The tree, one line per module: name, kind, settings, tensors, number of parameters. */
  MZ_API friend std::string str(const Module& module);
  MZ_API friend std::ostream& operator<<(std::ostream& out, const Module& module);

 protected:
  /** A new module of the type named. */
  explicit Module(std::string_view type);
  /** The layer's settings as shown when printed: "784, 256". */
  void set_summary(std::string summary);
  void set_keeps_f32_under_amp(bool on);
  void set_parallel_wrapper(bool on);
  /** Members are added and replaced by the container's own functions alone, which know the members'
   *  types. */
  void set_container();
  /** add() for containers too. */
  template <class M> std::remove_cvref_t<M> add_member(std::string_view name, M&& member) {
    using Type = std::remove_cvref_t<M>;
    add_child(name, member);
    if constexpr (std::is_lvalue_reference_v<M> && !std::is_const_v<std::remove_reference_t<M>>)
      static_cast<Module&>(member).settle(*this, name, detail::handle_type<Type>());
    return handed_over(Type(std::forward<M>(member)), *this, name);
  }
  /** replace() for containers too. */
  template <class M> std::remove_cvref_t<M> replace_member(std::string_view name, M&& member) {
    using Type = std::remove_cvref_t<M>;
    replace_child(name, member, detail::handle_type<Type>());
    return handed_over(Type(std::forward<M>(member)), *this, name);
  }
  /** Makes an element of a container's own list a member: it can then be changed by replace()
   *  alone. */
  template <class M> void pin(std::string_view name, M& element) const {
    static_cast<Module&>(element).pin_to(*this, name, detail::handle_type<M>());
  }

 private:
  template <class Derived> friend class Model;

  std::string_view type() const;
  void check_no_container(const char* call) const;
  void refuse_cycle(const char* call, std::string_view name, const Module& member) const;
  void add_child(std::string_view name, const Module& member);
  void count_as_child(std::string name) const noexcept;
  void replace_child(std::string_view name, const Module& member, const detail::HandleType& type);

  /** The result of add(): its copy, the handle that the caller keeps, learns who registered it. */
  template <class M> static M handed_over(M member, const Module& owner, std::string_view name) {
    static_cast<Module&>(member).hand_over(owner, name, detail::handle_type<M>());
    return member;
  }

  // Which handles are members of nets (member.cpp).
  void hand_over(const Module& owner, std::string_view name, const detail::HandleType& type);
  void settle(const Module& owner, std::string_view name, const detail::HandleType& type);
  void pin_to(const Module& owner, std::string_view name, const detail::HandleType& type);
  void take_place(const Module& other);
  void join(const Ref<detail::MemberTable>& table, std::ptrdiff_t offset, std::size_t child);
  void leave_place();
  std::ptrdiff_t member_offset_from(const Module& other) const;
  bool may_become(const Module& other) const;
  std::vector<Module*> members_called(std::string_view name, const Module& child) const;
  void enter_object(std::size_t size) const;
  void enter_object() const;
  void leave_object() const;

  Ref<ModuleState> state_;
  detail::HandlePlace place_;
};

struct NamedModule {
  std::string name;
  Module module;
};

/** The shared part of a Module. */
struct MZ_API ModuleState final : RefCounted {
  ModuleState() = default;
  ~ModuleState();

  std::string name;       // given by the first parent
  std::string_view type;  // static text
  std::string summary;
  std::vector<NamedTensor> parameters, buffers;
  std::vector<NamedModule> children;
  detail::NameIndex names;  // of these three lists
  bool container = false;
  bool replaced = false;                       // by replace(), and has no parent since
  std::atomic<std::int32_t> registrations{0};  // as a child
  std::atomic<const void*> object{nullptr};    // the handle constructed, copied to or assigned last
  std::size_t object_size = 0;                 // from there to the end of its object
  Ref<detail::MemberTable> members;            // none before the first child
  ModuleState* next_destroyed = nullptr;
  bool training = true;
  bool keeps_f32_under_amp = false;
  bool parallel_wrapper = false;
  std::shared_ptr<CallWrapper> call_wrapper;
  std::shared_ptr<const StateRule> state_rule;
  const void* attached_to = nullptr;
};

/** Modules are destroyed one after another, never recursively: a tree may be of any depth. */
MZ_API void destroy(ModuleState* module);

namespace detail {
/** Errors: StateError where a module that was replaced is called as a part of a net. */
MZ_API void check_not_replaced(const ModuleState& module);
/** Errors: ValueError with those of the children's names that are near. */
[[noreturn]] MZ_API void refuse_member(std::string_view op, const Module& module, std::string_view name);
/** The modules of the tree, each once, children before their parents. */
MZ_API std::vector<Module> postorder(const Module& root);
}  // namespace detail

template <class F> const Module& Module::apply(F&& f) const {
  for (const Module& module : detail::postorder(*this)) f(module);
  return *this;
}

}  // namespace mezzo::nn
