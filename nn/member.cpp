// Distinguishes assignments that change a net's member from assignments to other handles.
//
// A handle is a member if its address is inside the object of the net whose add() registered it.
// The net's state stores the address of the object that was constructed, copied to or assigned
// last. In all three operations bases come before members, so the address is up to date when a
// member is constructed or assigned.
#include "member.h"

#include <algorithm>
#include <cstdint>

#include "../tensor/core/error.h"
#include "../tensor/text/log.h"
#include "../tensor/text/text.h"
#include "member_table.h"

namespace mezzo::nn {

using detail::HandleKind;
using detail::HandlePlace;
using detail::HandleType;
using detail::MemberTable;
using detail::Unadded;

MemberTable::MemberTable() : handles(new Handles) {}
MemberTable::~MemberTable() = default;

namespace {

/** Returns the offset in bytes of a handle from the owner's handle, or 0 if the handle is outside
 *  the owner's object. */
std::ptrdiff_t offset_in(const ModuleState& owner, const Module* handle) {
  const auto begin = reinterpret_cast<std::uintptr_t>(owner.object.load(std::memory_order_relaxed));
  const auto at = reinterpret_cast<std::uintptr_t>(handle);
  return begin != 0 && at > begin && at - begin < owner.object_size
             ? static_cast<std::ptrdiff_t>(at - begin)
             : 0;
}

bool is_child(const ModuleState& owner, const Module& module) {
  return std::any_of(owner.children.begin(), owner.children.end(),
                     [&](const NamedModule& child) { return child.module.is_same(module); });
}

/** Returns true if all other handles to this module belong to modules that registered it. */
bool is_last_handle(const Module& handle) {
  return handle.state().owners() ==
         handle.state().registrations.load(std::memory_order_relaxed) + 1;
}

std::size_t child_index(const Module& owner, std::string_view name) {
  return *owner.state().names.find(detail::NameKind::child, name);
}

const Ref<MemberTable>& table_of(const Module& owner) {
  ModuleState& state = owner.state();
  if (!state.members) {
    state.members = make_ref<MemberTable>();
    state.members->module = &state;
  }
  return state.members;
}

[[noreturn]] void refuse_assignment(const Module& member, const Module& other) {
  const std::string& name = member.name();
  fail<StateError>(
      "operator=",
      {.what = "a registered member cannot be assigned: parameters() and save() would not change",
       .got = str("another ", other.kind(), " for \"", name, "\" ", member.kind()),
       .hint = str("use replace(\"", name, "\", ...) of the module that registered it")});
}

}  // namespace

namespace {

/** A net that was constructed on this thread, and whose members may still be constructed. */
struct NewNet {
  Ref<MemberTable> table;
  const Module* object;
  std::size_t size;

  bool contains(const Module* handle) const {
    const auto at = reinterpret_cast<std::uintptr_t>(handle),
               begin = reinterpret_cast<std::uintptr_t>(object);
    return at > begin && at - begin < size;
  }
  /** Returns the net if its object is still the one that was constructed. Requires the lock. */
  ModuleState* net() const {
    ModuleState* const net = table->module;
    return net && net->object.load(std::memory_order_relaxed) == object ? net : nullptr;
  }
};

thread_local bool thread_ends = false;  // after the destruction of its NewNets

/** The latest nets of a thread, outer ones first. They stay here after their construction, whose
 * end is not known. */
struct NewNets {
  static constexpr std::size_t kMost = 64;
  std::vector<NewNet> list;

  ~NewNets() { thread_ends = true; }
  void add(NewNet net) {
    std::erase_if(list, [](const NewNet& former) {
      const std::lock_guard lock(former.table->handles->mutex);
      return !former.net();
    });
    if (list.size() == kMost) list.erase(list.begin());
    list.push_back(std::move(net));
  }
};

thread_local NewNets new_nets;

/** Returns true for a class of a program that may have members. Layers of the library add theirs.
 */
bool may_have_members(const ModuleState& state) {
  return state.object_size > sizeof(Module) && !state.type.starts_with("mezzo::nn::");
}

}  // namespace

void Module::record_object(std::size_t size) {
  state_->object_size = size;
  record_object();
  if (!thread_ends && may_have_members(*state_)) new_nets.add({table_of(*this), this, size});
}

void Module::record_object() {
  state_->object.store(this, std::memory_order_relaxed);
  if (place_.kind == HandleKind::plain && !thread_ends) find_owner();
}

/** Lists this handle if it is inside the object of a new net. Members are constructed in order, so
 *  nets that were constructed after that one are complete. */
void Module::find_owner() {
  std::vector<NewNet>& nets = new_nets.list;
  for (std::size_t i = nets.size(); i-- > 0;) {
    if (!nets[i].contains(this)) continue;
    std::ptrdiff_t offset = 0;
    {
      const std::lock_guard lock(nets[i].table->handles->mutex);
      ModuleState* const net = nets[i].net();
      if (!net) continue;
      offset = offset_in(*net, this);
      auto none = Unadded::none;
      net->unadded.compare_exchange_strong(none, Unadded::unchecked);
    }
    nets.erase(nets.begin() + static_cast<std::ptrdiff_t>(i) + 1, nets.end());
    return set_listed(HandleKind::unadded, nets[i].table, offset, 0);
  }
}

void Module::clear_object() const {
  const void* self = this;
  if (state_->object.load(std::memory_order_relaxed) == self)
    state_->object.compare_exchange_strong(self, nullptr, std::memory_order_relaxed);
}

void Module::mark_returning(const Module& owner, std::string_view name, const HandleType& type) {
  clear_place();
  place_ = {.kind = HandleKind::returning,
            .table = table_of(owner),
            .offset = 0,
            .child = child_index(owner, name),
            .type = &type};
}

void Module::become_member(const Module& owner, std::string_view name, const HandleType& type) {
  if (place_.kind == HandleKind::member) return;
  if (const std::ptrdiff_t offset = offset_in(owner.state(), this); offset != 0) {
    set_listed(HandleKind::member, table_of(owner), offset, child_index(owner, name));
    place_.type = &type;
  }
}

void Module::become_element(const Module& owner, std::string_view name, const HandleType& type) {
  set_listed(HandleKind::member, table_of(owner), 0, child_index(owner, name));
  place_.type = &type;
}

void Module::set_listed(HandleKind kind, const Ref<MemberTable>& table, std::ptrdiff_t offset,
                        std::size_t child) {
  {
    const std::lock_guard lock(table->handles->mutex);
    table->handles->list.insert(this);
  }
  if (!(table == place_.table)) clear_place();
  place_.kind = kind;
  place_.table = table;
  place_.offset = offset;
  place_.child = child;
}

void Module::clear_place() {
  if (place_.is_listed()) {
    const std::lock_guard lock(place_.table->handles->mutex);
    place_.table->handles->list.erase(this);
  }
  place_.kind = HandleKind::plain;
  place_.table.reset();
}

std::ptrdiff_t Module::member_offset_from(const Module& other) const {
  const HandlePlace& from = other.place_;
  if (!from.table) return 0;
  const std::lock_guard lock(from.table->handles->mutex);
  const std::ptrdiff_t offset = from.table->module ? offset_in(*from.table->module, this) : 0;
  return !from.is_listed() || offset == from.offset ? offset : 0;
}

void Module::set_place_from(const Module& other) {
  const HandlePlace& from = other.place_;
  if (const std::ptrdiff_t offset = member_offset_from(other); offset != 0) {
    const bool unadded = from.kind == HandleKind::unadded;
    set_listed(unadded ? from.kind : HandleKind::member, from.table, offset, from.child);
    return;
  }
  if (place_.kind == HandleKind::unadded) return;  // whatever it refers to
  clear_place();
  if (from.kind == HandleKind::plain || from.kind == HandleKind::unadded) return;
  place_.kind = from.kind == HandleKind::returning ? HandleKind::result : HandleKind::copied;
  if (place_.kind != HandleKind::result) return;
  place_.table = from.table;
  place_.child = from.child;
}

bool Module::may_be_assigned(const Module& other) const {
  if (is_same(other)) return true;
  if (place_.kind == HandleKind::copied)  // for example in a standard container of the net
    return !is_last_handle(*this) ||
           other.state_->registrations.load(std::memory_order_relaxed) > 0;
  if (place_.kind != HandleKind::member) return true;
  const bool with_its_net = other.place_.is_listed() && member_offset_from(other) != 0;
  if (with_its_net) return true;
  const std::lock_guard lock(place_.table->handles->mutex);
  const ModuleState* owner = place_.table->module;
  // Members of one net can be swapped, because another handle to each still exists when it is
  // overwritten.
  return !owner || (is_child(*owner, other) && !(is_child(*owner, *this) && is_last_handle(*this)));
}

Module& Module::operator=(const Module& other) & {
  if (this == &other) return *this;
  if (!may_be_assigned(other)) refuse_assignment(*this, other);
  if (place_.kind != HandleKind::member || member_offset_from(other) != 0) set_place_from(other);
  state_ = other.state_;
  return *this;
}

std::vector<Module*> Module::members_named(std::string_view name, const Module& child) const {
  std::vector<Module*> out;
  if (!state_->members) return out;
  const bool once = child.state_->registrations.load(std::memory_order_relaxed) == 1;
  const std::size_t index = child_index(*this, name);
  const std::lock_guard lock(state_->members->handles->mutex);
  for (Module* handle : state_->members->handles->list)
    if (handle->place_.kind == HandleKind::member && handle->is_same(child) &&
        (once || handle->place_.child == index))
      out.push_back(handle);
  return out;
}

void Module::replace_child(std::string_view name, const Module& member, const HandleType& type) {
  const std::size_t* at = state_->names.find(detail::NameKind::child, name);
  if (!at) detail::refuse_member("replace", *this, name);
  Module& child = state_->children[*at].module;
  if (child.is_same(member)) return;
  check_no_cycle("replace", name, member);
  if (child.attached_to())
    fail<StateError>("replace", {.what = "mixed precision is attached to the old module",
                                 .got = str("\"", name, "\" ", child.kind(), " under a session"),
                                 .hint = "replace before amp::initialize, or close the session"});
  const std::vector<Module*> handles = members_named(name, child);
  for (const Module* handle : handles)
    if (const HandleType* held = handle->place_.type;
        held && (!held->assign || *held->type != *type.type))
      fail<ValueError>("replace", {.what = "the member is a handle of another type",
                                   .got = str("a ", member.kind(), " for \"", name, "\""),
                                   .expected = str("a ", child.kind())});
  std::string own_name(name);
  const Module old = child;
  record_late(old, name, member, "replace");
  child.state_ = member.state_;
  member.count_as_child(std::move(own_name));
  old.state_->replaced = old.state_->registrations.fetch_sub(1, std::memory_order_relaxed) == 1;
  for (Module* handle : handles) {
    if (handle->place_.type)
      type.assign(*handle, member);
    else
      handle->state_ = member.state_;
  }
}

void detail::check_not_replaced(const ModuleState& module) {
  if (module.replaced && module_is_executing())
    fail<StateError>(
        short_name(module.type),
        {.what = "a net calls a module that replace() removed from it",
         .got = str("the old \"", module.name, "\""),
         .hint = "assign the result of replace() to this handle too, or add() the old module"});
}

// ---- members that were not added ----------------------------------------------------------------

namespace {

/** Returns true if a net that does not hold the module as a child computes or saves something
 *  wrong: it has tensors, or depends on training mode. Copies no handles. */
bool matters(const ModuleState& module) {
  std::unordered_set<const ModuleState*> seen{&module};
  std::vector<const ModuleState*> left{&module};
  while (!left.empty()) {
    const ModuleState& state = *left.back();
    left.pop_back();
    if (state.uses_mode || !state.parameters.empty() || !state.buffers.empty()) return true;
    for (const NamedModule& child : state.children)
      if (seen.insert(&child.module.state()).second) left.push_back(&child.module.state());
  }
  return false;
}

/** Returns text such as "Linear(4, 1), declared after \"fc1\"" for an unadded member. `before` is
 *  the name of the last added member before it; null if there is none. */
std::string member_text(const Module& member, const std::string* before) {
  const ModuleState& state = member.state();
  return str(member.kind(), state.summary.empty() ? "" : "(" + state.summary + ")",
             before ? ", declared after \"" + *before + "\"" : ", declared before added members");
}

}  // namespace

/** Logs the members of a net that have tensors, or depend on training mode, and that neither this
 *  nor another module has added; once for each net. */
void Module::report_unadded(const ModuleState& net) {
  if (net.unadded.load(std::memory_order_relaxed) != Unadded::unchecked) return;
  std::vector<std::pair<std::ptrdiff_t, std::string>> found;
  {
    const std::lock_guard lock(net.members->handles->mutex);
    for (const Module* handle : net.members->handles->list) {
      const HandlePlace& place = handle->place_;
      if (place.kind != HandleKind::unadded ||
          handle->state().registrations.load(std::memory_order_relaxed) > 0)
        continue;
      const bool listed = std::any_of(found.begin(), found.end(), [&](const auto& one) {
        return one.first == place.offset;  // in another object of the net
      });
      if (listed || !matters(handle->state())) continue;
      const Module* before = nullptr;
      for (const Module* other : net.members->handles->list)
        if (other->place_.kind == HandleKind::member && other->place_.offset < place.offset &&
            (!before || other->place_.offset > before->place_.offset))
          before = other;
      found.emplace_back(
          place.offset,
          member_text(*handle, before ? &net.children[before->place_.child].name : nullptr));
    }
  }
  auto& unadded = const_cast<ModuleState&>(net).unadded;
  auto unchecked = Unadded::unchecked;
  if (!unadded.compare_exchange_strong(unchecked, found.empty() ? Unadded::none : Unadded::told))
    return;
  std::sort(found.begin(), found.end());
  for (const auto& [offset, text] : found)
    log_text(Severity::warning,
             error_text(detail::short_name(net.type),
                        {.what = "a member was not added to the net, which does not train, move, "
                                 "save or switch it",
                         .got = text,
                         .expected = "a member that is initialised by add(\"name\", ...)",
                         .hint = "a layer that is to stay outside belongs into a pointer"}));
}

void detail::check_call(const ModuleState& module) {
  check_not_replaced(module);
  Module::report_unadded(module);
}

}  // namespace mezzo::nn
