// has_forward and others: whether a class has a member of a name, whatever its signature, for
// errors that say what is missing.
#pragma once

#include <type_traits>

namespace mezzo::detail {

// A name that two base classes declare is ambiguous, so a class that derives from T and from one
// with that member can name it only if T does not have it. A final class cannot be asked.
#define MZ_HAS_MEMBER(name)                                        \
  struct Has_##name {                                              \
    int name;                                                      \
  };                                                               \
  template <class T> struct With_##name : T, Has_##name {};        \
  /** Returns true if T has a member of this name, or is final. */ \
  template <class T> constexpr bool has_##name() {                 \
    if constexpr (std::is_final_v<T>)                              \
      return true;                                                 \
    else                                                           \
      return !requires { &With_##name<T>::name; };                 \
  }

MZ_HAS_MEMBER(forward)
MZ_HAS_MEMBER(gradient)
#undef MZ_HAS_MEMBER

}  // namespace mezzo::detail
