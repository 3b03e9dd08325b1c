// ApiScope: the public function that a thread is executing. Errors report this name.
#pragma once

#include <string_view>

#include "macros.h"

namespace mezzo {

/** A scope in which errors of this thread report `name`. The outermost scope with a name wins. */
class MZ_API ApiScope {
 public:
  /** Opens the scope. `name` must outlive it; an empty name has no effect. */
  explicit ApiScope(std::string_view name);
  ~ApiScope();
  ApiScope(const ApiScope&) = delete;
  ApiScope& operator=(const ApiScope&) = delete;

  /** Returns the name of the outermost scope, or `inner` outside of every scope. */
  static std::string_view outermost(std::string_view inner);

 private:
  bool is_outermost_;
};

}  // namespace mezzo
