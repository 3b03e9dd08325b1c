// Draw, GeneratorScope: scopes of this thread's default generator. Private to the library.
#pragma once

#include <exception>

#include "generator.h"

namespace mezzo {

/** Sets this thread's default generator until the end of the scope. */
class GeneratorScope {
 public:
  explicit GeneratorScope(const Generator& generator) : previous_(default_generator()) {
    default_generator() = generator;
  }
  ~GeneratorScope() { default_generator() = previous_; }
  GeneratorScope(const GeneratorScope&) = delete;
  GeneratorScope& operator=(const GeneratorScope&) = delete;

 private:
  Generator previous_;
};

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
