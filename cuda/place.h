// CallPlace: where a function was called, as a default argument; std::source_location for compilers that lack it (clang 14).
// Sees: nothing; parsed by nvcc too.
// Read next: runtime.h.
#pragma once

namespace mezzo::gpu {

struct CallPlace {
  const char* file = "";
  int line = 0;

  static constexpr CallPlace current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
  friend constexpr bool operator==(CallPlace a, CallPlace b) { return a.line == b.line && a.file == b.file; }
};

}  // namespace mezzo::gpu
