// Draw: a scope for drawing random numbers.
#pragma once

#include <exception>

#include "generator.h"

namespace mezzo {

/** Restores this thread's default generator if an exception leaves the scope, so that a function
 *  that throws takes no draws. */
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
