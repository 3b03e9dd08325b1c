// Faults of the emulated machine: libraries whose calls fail, and devices that fail for good.
// Sees: ../../tensor/macros.h.
// Read next: faults.cpp, blas.cpp and dnn.cpp (the libraries), runtime.cpp (the devices).
#pragma once

#include <cstdint>
#include <string>

#include "../../tensor/macros.h"

namespace mezzo::emulator {

/** What a library does for a problem that it is asked for, in this order. One that fails in
 *  `support` says that it has nothing for the problem. */
enum class LibraryStage : std::uint8_t { support, heuristics, planning, execution };

/** While it lives, calls of cuBLASLt and cuDNN fail in one stage: those from number `first` on,
 *  `count` of them, where each stage counts its own from 1. Execution may break the devices
 *  too. One at a time. */
class MZ_API LibraryFault {
 public:
  static constexpr int kAll = 1 << 30;
  explicit LibraryFault(LibraryStage stage, int first = 1, int count = kAll, bool breaks_devices = false);
  ~LibraryFault();
  LibraryFault(const LibraryFault&) = delete;
  LibraryFault& operator=(const LibraryFault&) = delete;

  /** Calls of the stage that failed so far. */
  int failed() const { return failed_; }

 private:
  friend bool fails_in(LibraryStage stage);
  LibraryStage stage_;
  int first_, count_, calls_ = 0, failed_ = 0;
  bool breaks_devices_;
};

/** For the libraries: whether the call of a stage that begins is to fail. */
bool fails_in(LibraryStage stage);
/** Errors: CudaError where it is to fail. */
void reach_stage(LibraryStage stage, const char* call);

/** How many algorithms a library has for each problem. */
inline constexpr int kLibraryAlgorithms = 3;

/** All devices fail with these words from now on. */
MZ_API void break_devices(const std::string& what);
/** They work again, which no real one would. */
MZ_API void mend_devices();

}  // namespace mezzo::emulator
