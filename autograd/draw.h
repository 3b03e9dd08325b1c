// Draw: the default generator's draws of one function, given back where it throws.
// Sees: tensor/generator.h.
// Read next: ops/random.cpp (a user).
#pragma once

#include <exception>

#include "../tensor/generator.h"

namespace mezzo {

/** For the time that a function takes draws. */
class Draw {
 public:
  Draw() = default;
  ~Draw() {
    if (std::uncaught_exceptions() > exceptions_) default_generator() = before_;
  }
  Draw(const Draw&) = delete;
  Draw& operator=(const Draw&) = delete;

 private:
  Generator before_ = default_generator();
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace mezzo
