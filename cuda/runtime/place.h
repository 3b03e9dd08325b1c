// CallPlace: the place of a call, as a default argument. Replaces std::source_location, which clang
// 14 lacks. Parsed by g++ and by nvcc.
#pragma once

namespace mezzo::gpu {

/** File and line of a call. */
struct CallPlace {
  const char* file = "";
  int line = 0;

  static constexpr CallPlace current(const char* file = __builtin_FILE(),
                                     int line = __builtin_LINE()) {
    return {file, line};
  }
  friend constexpr bool operator==(CallPlace a, CallPlace b) {
    return a.line == b.line && a.file == b.file;
  }
};

}  // namespace mezzo::gpu
