#include "module.h"

#include <algorithm>
#include <mutex>
#include <unordered_set>

#include "../autograd/gradient_mark.h"
#include "../optim/late_leaves.h"
#include "../tensor/core/dispatch.h"
#include "../tensor/text/did_you_mean.h"
#include "../tensor/text/log.h"
#include "../tensor/text/text.h"
#include "rebind.h"
#include "walk.h"

namespace mezzo::nn {

using detail::NameKind;

namespace {

void check_defined(const Tensor& value, const char* call, std::string_view name) {
  if (!value.defined())
    fail<ValueError>(call, {.what = "the tensor is undefined",
                            .got = str("\"", name, "\""),
                            .hint = "do not register tensors that do not exist"});
}

void check_name(const ModuleState& state, const char* call, std::string_view name) {
  const std::string_view kind = detail::short_name(state.type);
  if (name.empty() || name.find('.') != std::string_view::npos)
    fail<ValueError>(call, {.what = "a name must be non-empty and contain no dot",
                            .got = str("\"", name, "\" in ", kind)});
  if (state.names.find(name))
    fail<ValueError>(
        call, {.what = "the name is already registered", .got = str("\"", name, "\" in ", kind)});
}

/** Reserves room for one more element, so that the next push_back does not allocate. */
template <class List> void make_room_for_one(List& list) {
  if (list.size() == list.capacity()) list.reserve(2 * list.size() + 1);
}

/** Adds a name to the name index and returns its list entry. A push_back() of the entry cannot
 *  throw afterwards. */
NamedTensor named(ModuleState& state, std::vector<NamedTensor>& list, NameKind kind,
                  std::string_view name, const Tensor& value) {
  NamedTensor entry{std::string(name), value};
  make_room_for_one(list);
  state.names.add(name, kind, list.size());
  return entry;
}

/** Returns each tensor once, under its first name. */
std::vector<NamedTensor> collect(const Module& root, std::vector<NamedTensor> ModuleState::* list) {
  std::vector<NamedTensor> out;
  std::unordered_set<const TensorImpl*> seen;
  detail::walk_tensors(root, list,
                       [&](const std::string& name, const Module&, const NamedTensor& entry) {
                         if (seen.insert(entry.tensor.impl()).second)
                           out.push_back({name, entry.tensor, entry.keep_f32});
                       });
  return out;
}

/** Returns the parameters of a tree, each once. */
std::vector<Tensor> parameters_of(const Module& root) {
  std::vector<Tensor> out;
  std::unordered_set<const TensorImpl*> seen;
  detail::walk(root, [&](const std::string&, const Module& module) {
    for (const NamedTensor& entry : module.state().parameters)
      if (seen.insert(entry.tensor.impl()).second) out.push_back(entry.tensor);
  });
  return out;
}

/** Returns the module at a dotted path below `root`, or null if there is none. */
const Module* find_module(const Module& root, std::string_view path) {
  const Module* module = &root;
  while (module && !path.empty()) {
    const std::size_t dot = path.find('.');
    const ModuleState& state = module->state();
    const std::size_t* child = state.names.find(NameKind::child, path.substr(0, dot));
    module = child ? &state.children[*child].module : nullptr;
    path.remove_prefix(dot == std::string_view::npos ? path.size() : dot + 1);
  }
  return module;
}

/** Returns the tensor at a dotted path below `root`. Errors: ValueError with the nearest names. */
Tensor find(const Module& root, std::vector<NamedTensor> ModuleState::* list, NameKind kind,
            std::string_view path) {
  const std::size_t dot = path.rfind('.');
  const bool has_owner = dot != std::string_view::npos;
  if (const Module* owner =
          find_module(root, has_owner ? path.substr(0, dot) : std::string_view())) {
    const ModuleState& state = owner->state();
    if (const std::size_t* at = state.names.find(kind, path.substr(has_owner ? dot + 1 : 0)))
      return (state.*list)[*at].tensor;
  }
  std::vector<std::string> names;
  detail::walk_tensors(root, list, [&](const std::string& name, const Module&, const NamedTensor&) {
    names.push_back(name);
  });
  fail<ValueError>(kind == NameKind::parameter ? "parameter" : "buffer",
                   {.what = str(root.kind(), " has no tensor of this name"),
                    .got = str("\"", path, "\""),
                    .hint = did_you_mean(path, names)});
}

}  // namespace

Module::Module(std::string_view type) : state_(make_ref<ModuleState>()) { state_->type = type; }

std::string_view Module::kind() const { return detail::short_name(state_->type); }
std::string_view Module::type() const { return state_->type; }
const std::string& Module::name() const { return state_->name; }
bool Module::training() const { return state_->training; }
const std::vector<NamedTensor>& Module::own_parameters() const { return state_->parameters; }
const std::vector<NamedTensor>& Module::own_buffers() const { return state_->buffers; }
void Module::set_summary(std::string summary) { state_->summary = std::move(summary); }

bool Module::keeps_f32_under_amp() const { return state_->keeps_f32_under_amp; }
void Module::set_keeps_f32_under_amp(bool on) { state_->keeps_f32_under_amp = on; }
bool Module::is_parallel_wrapper() const { return state_->parallel_wrapper; }
void Module::set_parallel_wrapper(bool on) { state_->parallel_wrapper = on; }
void Module::set_call_wrapper(std::shared_ptr<CallWrapper> wrapper) const {
  state_->call_wrapper = std::move(wrapper);
}
const std::shared_ptr<CallWrapper>& Module::call_wrapper() const { return state_->call_wrapper; }
bool Module::wraps_calls() const {
  return state_->call_wrapper || !state_->forward_pre_hooks.empty() ||
         !state_->forward_hooks.empty();
}
void Module::set_state_rule(std::shared_ptr<const StateRule> rule) const {
  state_->state_rule = std::move(rule);
}
const std::shared_ptr<const StateRule>& Module::state_rule() const { return state_->state_rule; }
void Module::set_attached_to(const AttachedSession* session) const {
  state_->attached_to = session;
}
const AttachedSession* Module::attached_to() const { return state_->attached_to; }

void Module::set_container() { state_->container = true; }
void Module::set_uses_mode() { state_->uses_mode = true; }

void Module::check_no_container(const char* call) const {
  if (state_->container)
    fail<StateError>(call, {.what = "members of a container change only through its own type",
                            .got = str("a handle of type Module to a ", kind()),
                            .hint = str("call ", call, "() of the ", kind())});
}

void Module::check_no_cycle(const char* call, std::string_view name, const Module& member) const {
  bool contained = member.is_same(*this);
  // An unregistered module is not part of any other module.
  if (!contained && state_->registrations.load(std::memory_order_relaxed) > 0)
    for (const Module& below : detail::postorder(member)) contained |= below.is_same(*this);
  if (contained)
    fail<ValueError>(call,
                     {.what = "a module cannot be part of itself",
                      .got = str(member.kind(), " \"", name, "\" that contains this ", kind())});
}

void Module::add_child(std::string_view name, const Module& member) {
  check_name(*state_, "add", name);
  check_no_cycle("add", name, member);
  NamedModule child{std::string(name), member};
  make_room_for_one(state_->children);
  std::string own_name(member.state_->name.empty() ? name : std::string_view(member.state_->name));
  record_late(*this, name, member, "add");
  state_->names.add(name, NameKind::child, state_->children.size());
  // Nothing below allocates.
  state_->children.push_back(std::move(child));
  member.count_as_child(std::move(own_name));
}

void detail::check_assigned(const Module& handle, const Module& other) {
  const ModuleState& state = handle.state();
  const bool is_member = state.registrations.load(std::memory_order_relaxed) > 0;
  if (handle.is_same(other) || (!is_member && (state.container || state.children.empty()))) return;
  fail<StateError>(
      "operator=",
      {.what = is_member ? "a layer of a net is not assigned: parameters() and save() would not "
                           "change"
                         : "a layer with children is not assigned",
       .got = str("another ", other.kind(), " for ", is_member ? str("\"", state.name, "\" ") : "",
                  described(state)),
       .hint = is_member ? "use net.replace(net.layer, ...)" : "construct another handle"});
}

void Module::replace_child(std::string_view name, const Module& member) {
  const std::size_t* at = state_->names.find(NameKind::child, name);
  if (!at) detail::refuse_member("replace", *this, name);
  Module& child = state_->children[*at].module;
  if (child.is_same(member)) return;
  check_no_cycle("replace", name, member);
  if (child.attached_to())
    fail<StateError>("replace", {.what = "mixed precision is attached to the old module",
                                 .got = str("\"", name, "\" ", child.kind(), " under a session"),
                                 .hint = "replace before amp::initialize, or close the session"});
  std::string own_name(name);
  const Module old = child;
  record_late(old, name, member, "replace");
  child.state_ = member.state_;
  member.count_as_child(std::move(own_name));
  old.state_->replaced = old.state_->registrations.fetch_sub(1, std::memory_order_relaxed) == 1;
}

void Module::replace_children(const Module& member, const Module& module) {
  if (member.is_same(module)) return;
  bool is_child = false;
  for (const NamedModule& child : state_->children)
    if (child.module.is_same(member)) {
      is_child = true;
      replace_child(child.name, module);
    }
  const auto is_module = [&](const NamedModule& child) { return child.module.is_same(module); };
  if (!is_child && std::none_of(state_->children.begin(), state_->children.end(), is_module))
    fail<ValueError>("replace", {.what = str("the layer is no child of this ", kind()),
                                 .got = detail::described(*member.state_),
                                 .hint = "call replace() of the module that has added it"});
}

void Module::record_late(const Module& earlier, std::string_view name, const Module& later,
                         std::string_view call) {
  if (!is_held()) return;
  std::vector<LateLeaf> late;
  for (const NamedTensor& entry : collect(later, &ModuleState::parameters))
    late.push_back({str(name, ".", entry.name), entry.tensor, call});
  if (!late.empty()) record_late_leaves(parameters_of(earlier), late);
}

void Module::count_as_child(std::string name) const noexcept {
  if (state_->name.empty()) state_->name = std::move(name);
  state_->registrations.fetch_add(1, std::memory_order_relaxed);
  state_->replaced = false;
}

ModuleState::~ModuleState() {
  for (const NamedModule& child : children)
    child.module.state().registrations.fetch_sub(1, std::memory_order_relaxed);
}

void destroy(ModuleState* module) {
  static thread_local ModuleState* pending = nullptr;
  static thread_local bool draining = false;
  module->next_destroyed = std::exchange(pending, module);
  if (draining) return;
  draining = true;
  while (pending) {
    const ModuleState* next = pending;
    pending = pending->next_destroyed;
    delete next;
  }
  draining = false;
}

Tensor Module::add_parameter(std::string_view name, const Tensor& value) {
  check_name(*state_, "add_parameter", name);
  check_defined(value, "add_parameter", name);
  if (!value.is_leaf())
    fail<StateError>("add_parameter",
                     {.what = "a parameter must be a leaf",
                      .got = str("\"", name, "\" ", value, " that an operation computed"),
                      .hint = "use x.detach()"});
  value.requires_grad_();
  if (is_held()) {
    const LateLeaf late{std::string(name), value, "add_parameter"};
    record_late_leaves(parameters_of(*this), {&late, 1});
  }
  NamedTensor entry = named(*state_, state_->parameters, NameKind::parameter, name, value);
  value.impl()->is_parameter = true;
  value.impl()->storage->set_category(MemoryCategory::weights);
  state_->parameters.push_back(std::move(entry));
  return value;
}

Tensor Module::add_buffer(std::string_view name, const Tensor& value) {
  check_name(*state_, "add_buffer", name);
  check_defined(value, "add_buffer", name);
  NamedTensor entry = named(*state_, state_->buffers, NameKind::buffer, name, value);
  value.impl()->storage->set_category(MemoryCategory::weights);
  state_->buffers.push_back(std::move(entry));
  return value;
}

void Module::keep_f32(std::string_view name) {
  const detail::NameIndex::Entry* entry = state_->names.find(name);
  if (!entry || entry->kind == NameKind::child)
    fail<ValueError>("keep_f32", {.what = str(kind(), " itself has no tensor of this name"),
                                  .got = str("\"", name, "\"")});
  auto& list = entry->kind == NameKind::parameter ? state_->parameters : state_->buffers;
  list[entry->index].keep_f32 = true;
}

const Module& Module::train(bool on) const {
  for (const Module& module : modules()) module.state_->training = on;
  return *this;
}

std::vector<NamedTensor> Module::named_parameters() const {
  return collect(*this, &ModuleState::parameters);
}
std::vector<NamedTensor> Module::named_buffers() const {
  return collect(*this, &ModuleState::buffers);
}

std::vector<Tensor> Module::parameters() const { return parameters_of(*this); }

Tensor Module::parameter(std::string_view path) const {
  return find(*this, &ModuleState::parameters, NameKind::parameter, path);
}
Tensor Module::buffer(std::string_view path) const {
  return find(*this, &ModuleState::buffers, NameKind::buffer, path);
}

std::int64_t Module::num_parameters() const {
  std::int64_t count = 0;
  for (const Tensor& p : parameters()) count += p.numel();
  return count;
}

std::vector<NamedModule> Module::children() const { return state_->children; }

std::vector<Module> Module::modules() const {
  std::vector<Module> out;
  detail::walk(*this, [&](const std::string&, const Module& module) { out.push_back(module); });
  return out;
}

std::vector<NamedModule> Module::named_modules() const {
  std::vector<NamedModule> out;
  detail::walk(
      *this, [&](const std::string& path, const Module& module) { out.push_back({path, module}); });
  return out;
}

Module Module::child(std::string_view path) const {
  if (const Module* found = find_module(*this, path)) return *found;
  std::vector<std::string> names;
  for (const NamedModule& entry : named_modules()) names.push_back(entry.name);
  fail<ValueError>("child", {.what = str(kind(), " has no module of this name"),
                             .got = str("\"", path, "\""),
                             .hint = did_you_mean(path, names)});
}

void detail::refuse_member(std::string_view op, const Module& module, std::string_view name) {
  std::vector<std::string> names;
  for (const NamedModule& child : module.children()) names.push_back(child.name);
  fail<ValueError>(op, {.what = "there is no member of this name",
                        .got = str("\"", name, "\""),
                        .hint = did_you_mean(name, names)});
}

std::vector<Module> detail::postorder(const Module& root) {
  struct Level {
    const Module* module;
    std::size_t next_child;
  };
  std::unordered_set<const ModuleState*> seen{&root.state()};
  std::vector<Module> out;
  std::vector<Level> levels{{&root, 0}};
  while (!levels.empty()) {
    Level& level = levels.back();
    const std::vector<NamedModule>& children = level.module->state().children;
    if (level.next_child == children.size()) {
      out.push_back(*level.module);
      levels.pop_back();
    } else if (const Module& child = children[level.next_child++].module;
               seen.insert(&child.state()).second)
      levels.push_back({&child, 0});
  }
  return out;
}

namespace {

/** The new value of an entry. All are computed before any tensor is changed, so that an allocation
 *  failure changes nothing. */
struct Converted {
  Tensor tensor, data, grad;
};

template <class Target> void convert_all(const std::vector<NamedTensor>& entries, Target target) {
  const NoGradNoCasts plain_ops;
  std::vector<Converted> all;
  for (const NamedTensor& entry : entries) {
    const Tensor& x = entry.tensor;
    const Tensor grad = x.grad();
    all.push_back({x, x.detach().to(target), grad.defined() ? grad.detach().to(target) : Tensor{}});
  }
  for (const Converted& c : all) {
    rebind(c.tensor, c.data);
    c.tensor.set_grad(c.grad);
  }
}

std::vector<NamedTensor> all_tensors(const Module& module) {
  std::vector<NamedTensor> out = module.named_parameters();
  for (NamedTensor& entry : module.named_buffers()) out.push_back(std::move(entry));
  return out;
}

}  // namespace

const Module& Module::to(DType dtype) const {
  if (!is_floating(dtype))
    fail<DtypeError>("to", {.what = "expected a floating-point dtype",
                            .got = std::string(mezzo::name(dtype)),
                            .expected = "f16, bf16, f32 or f64"});
  std::vector<NamedTensor> entries = all_tensors(*this);
  std::erase_if(entries, [&](const NamedTensor& entry) {
    return !is_floating(entry.tensor.dtype()) || entry.tensor.dtype() == dtype;
  });
  convert_all(entries, dtype);
  return *this;
}

const Module& Module::to(Device device) const {
  std::vector<NamedTensor> entries = all_tensors(*this);
  std::erase_if(entries, [&](const NamedTensor& entry) { return entry.tensor.device() == device; });
  convert_all(entries, device);
  return *this;
}

const Module& Module::to(MemoryFormat format) const {
  std::vector<NamedTensor> entries = all_tensors(*this);
  std::erase_if(entries, [&](const NamedTensor& entry) {
    const Tensor& x = entry.tensor;
    return !may_be_channels_last(x.dim()) || x.strides() == strides_in(format, x.shape());
  });
  convert_all(entries, format);
  return *this;
}

const Module& Module::requires_grad_(bool on) const {
  for (const Tensor& p : parameters()) p.requires_grad_(on);
  return *this;
}

void Module::zero_grad(bool set_to_none) const {
  const std::vector<Tensor> params = parameters();
  zero_gradients([&](const auto& f) { std::for_each(params.begin(), params.end(), f); },
                 set_to_none);
  if (const AttachedSession* const session = attached_to()) session->gradients_removed(params);
}

// ---- calls, and modules that were called without add() ------------------------------------------

namespace {

thread_local const detail::ModuleCall* innermost_call = nullptr;

/** Returns true if a net that calls the module without add() computes or trains something wrong: it
 *  has parameters that are trained, or depends on the training mode, which the net does not
 *  switch. */
bool matters(const ModuleState& module) {
  std::unordered_set<const ModuleState*> seen{&module};
  std::vector<const ModuleState*> left{&module};
  while (!left.empty()) {
    const ModuleState& state = *left.back();
    left.pop_back();
    if (state.training && (state.uses_mode || !state.buffers.empty())) return true;
    for (const NamedTensor& parameter : state.parameters)
      if (parameter.tensor.requires_grad()) return true;
    for (const NamedModule& child : state.children)
      if (seen.insert(&child.module.state()).second) left.push_back(&child.module.state());
  }
  return false;
}

/** Logs that `net` calls a module that no module has added; once for each text. */
void log_unadded(const ModuleState& net, const ModuleState& module) {
  constexpr std::size_t kMostLines = 64;  // of a net whose forward constructs modules
  const std::string text = detail::described(module);
  {
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    std::vector<std::string>& logged = net.logged_unadded;
    if (logged.size() == kMostLines ||
        std::find(logged.begin(), logged.end(), text) != logged.end())
      return;
    logged.push_back(text);
  }
  log_text(Severity::warning,
           error_text(detail::short_name(net.type),
                      {.what = "the net calls a module that was not added to it, and does not "
                               "train, move, save or switch it",
                       .got = text,
                       .expected = "a member that is initialised by add(\"name\", ...), or a "
                                   "ModuleList",
                       .hint = "a module that is to stay outside is frozen and in evaluation "
                               "mode"}));
}

}  // namespace

std::string detail::described(const ModuleState& module) {
  return str(short_name(module.type), module.summary.empty() ? "" : "(" + module.summary + ")");
}

void detail::check_caller(const ModuleState& module) {
  if (!innermost_call || module.registrations.load(std::memory_order_relaxed) > 0) [[likely]]
    return;
  for (const ModuleCall* call = innermost_call; call; call = call->caller_)
    if (&call->module_ == &module) return;  // it calls itself
  if (module.replaced)
    fail<StateError>(short_name(module.type),
                     {.what = "a net calls a module that replace() removed from it",
                      .got = str("the old \"", module.name, "\""),
                      .hint = "give this handle to replace(), too: net.replace(handle, module)"});
  if (matters(module)) log_unadded(innermost_call->module_, module);
}

detail::ModuleCall::ModuleCall(const ModuleState& module)
    : module_((check_caller(module), module)), caller_(innermost_call), path_(module.name) {
  innermost_call = this;
}

detail::ModuleCall::~ModuleCall() { innermost_call = caller_; }

}  // namespace mezzo::nn
