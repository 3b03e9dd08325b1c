// Which handles are members of nets: assigning over one is refused, and Module::replace rebinds them.
// Sees: tensor.
// Read next: member.cpp.
#pragma once

#include <concepts>
#include <cstddef>
#include <mutex>
#include <type_traits>
#include <typeinfo>
#include <unordered_set>

#include "../tensor/refcount.h"

namespace mezzo::nn {

class Module;
struct ModuleState;
template <class Derived> class Model;

namespace detail {

template <class M>
concept IsModule = std::derived_from<std::remove_cvref_t<M>, Module>;

/** The C++ type of a handle that is a member. */
struct HandleType {
  const std::type_info* type;
  void (*assign)(Module& to, const Module& from);  // of this type; null: cannot be assigned
};

/** The type of handles declared as M. Only a class that is Model's own argument can be assigned
 *  through a Module. */
template <class M> const HandleType& handle_type() {
  using Assign = void (*)(Module&, const Module&);
  static const HandleType type{&typeid(M), [] {
                                 if constexpr (std::derived_from<M, Model<M>> && std::is_copy_assignable_v<M>)
                                   return Assign([](Module& to, const Module& from) {
                                     static_cast<M&>(to) = static_cast<const M&>(from);
                                   });
                                 else
                                   return Assign(nullptr);
                               }()};
  return type;
}

/** The handles that are members of the objects of one net. */
struct MemberTable final : RefCounted {
  std::mutex mutex;
  ModuleState* module = nullptr;  // the net; null once it is gone
  std::unordered_set<Module*> handles;
};

enum class HandleKind {
  plain,
  member,     // lies in an object of the module that registered it, or in a container's own list
  result,     // what add() returned, kept outside such an object
  copied,     // a copy of one of these, elsewhere
  returning,  // on its way out of add()
};

/** Where a handle lies. Belongs to the handle, not to the module: it is not copied with it. */
struct HandlePlace {
  HandleKind kind = HandleKind::plain;
  Ref<MemberTable> table;            // of members and results
  std::ptrdiff_t offset = 0;         // of a member, from its owner's handle; 0 in a container's list
  std::size_t child = 0;             // which of the owner's children it was made for
  const HandleType* type = nullptr;  // null for a handle of type Module
};

}  // namespace detail
}  // namespace mezzo::nn
