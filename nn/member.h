// Bookkeeping of handles that are members of nets: assignment to a member throws, Module::replace
// rebinds members, and a member that was not added is logged.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <typeinfo>

#include "../tensor/core/macros.h"
#include "../tensor/core/pointers.h"

namespace mezzo::nn {

class Module;
struct ModuleState;
template <class Derived> class Model;

namespace detail {

template <class M>
concept IsModule = std::derived_from<std::remove_cvref_t<M>, Module>;

/** The C++ type of a member handle. */
struct HandleType {
  const std::type_info* type;
  void (*assign)(Module& to, const Module& from);  // assigns handles of this type; null: cannot
};

/** Returns the type of handles declared as M. Only classes that derive from Model<M> directly can
 *  be assigned through a Module. */
template <class M> const HandleType& handle_type() {
  using Assign = void (*)(Module&, const Module&);
  static const HandleType type{
      &typeid(M), [] {
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
struct MZ_API MemberTable final : RefCounted {
  struct Handles;  // hidden: its mutex and hash table slow down the compilation of every user

  MemberTable();
  ~MemberTable();

  ModuleState* module = nullptr;  // the net; null after its destruction
  Owner<Handles> handles;
};

enum class HandleKind {
  plain,      // none of the following
  member,     // inside an object of the module that registered it, or in a container's list
  result,     // the result of add(), stored outside such an object
  copied,     // a copy of a member, result or other copy, stored elsewhere
  returning,  // the return value of add(), before it is copied
  unadded,    // constructed inside an object of a net, which has not added it
};

/** Whether a net has members that were not added to it. */
enum class Unadded : std::uint8_t {
  none,       // as far as is known
  unchecked,  // a module was constructed inside its object
  told,       // they were logged
};

/** The storage location of a handle. It belongs to the handle and not to the module, so it is not
 *  copied with the handle. */
struct HandlePlace {
  HandleKind kind = HandleKind::plain;
  Ref<MemberTable> table;            // set for listed handles and results
  std::ptrdiff_t offset = 0;         // listed: bytes from the owner's handle; 0 in a container
  std::size_t child = 0;             // index among the owner's children
  const HandleType* type = nullptr;  // null for a handle of type Module

  /** Returns true if the handle is in MemberTable::handles. */
  bool is_listed() const { return kind == HandleKind::member || kind == HandleKind::unadded; }
};

}  // namespace detail
}  // namespace mezzo::nn
