// GeneratorScope: another default generator for a while. Private to the library.
#pragma once

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

}  // namespace mezzo
