// CallName: the function of the library that a thread is in, by the name the program called it by. An error from deep within is told in its name.
// Sees: macros.h.
// Read next: dispatch.cpp and capture.cpp (who asks).
#pragma once

#include <string_view>

#include "macros.h"

namespace mezzo {

/** Names what runs until the end of the scope, unless it is part of something that has a name. */
class MZ_API CallName {
 public:
  /** `name` has to last as long; an empty one names nothing. */
  explicit CallName(std::string_view name);
  ~CallName();
  CallName(const CallName&) = delete;
  CallName& operator=(const CallName&) = delete;

  /** What the program called, or `inner` outside of every scope. */
  static std::string_view outermost(std::string_view inner);

 private:
  bool is_outermost_;
};

}  // namespace mezzo
