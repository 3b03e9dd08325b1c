// Failures of driver calls. The first failure that breaks a device permanently is stored, and every
// later error quotes it.
#pragma once

#include <string>

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

/** Throws CudaError for a call that failed with `what`. `lasting`: all later calls fail too. */
[[noreturn]] void fail_call(const char* call, const std::string& what, bool lasting,
                            CallPlace place);

/** Clears the stored failure, for tests with emulated devices. */
void forget_broken_device();

}  // namespace mezzo::gpu
