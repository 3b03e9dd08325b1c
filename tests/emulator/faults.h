// Faults of the emulated machine: failing library calls and broken devices.
#pragma once

#include <cstdint>
#include <string>

#include "../../tensor/core/macros.h"

namespace mezzo::emulator {

/** The stages of a library call, in order. A failure in `support` reports the problem as not
 *  supported. */
enum class LibraryStage : std::uint8_t { support, heuristics, planning, execution };

/** Scope in which calls of cuBLASLt and cuDNN fail in one stage: `count` calls from number `first`
 *  on, counted per stage from 1. Failing executions may also break the devices. One at a time. */
class MZ_API LibraryFault {
 public:
  static constexpr int kAll = 1 << 30;
  explicit LibraryFault(LibraryStage stage, int first = 1, int count = kAll,
                        bool breaks_devices = false);
  ~LibraryFault();
  LibraryFault(const LibraryFault&) = delete;
  LibraryFault& operator=(const LibraryFault&) = delete;

  /** Returns the number of calls that have failed. */
  int failed() const { return failed_; }

 private:
  friend bool fails_in(LibraryStage stage);
  LibraryStage stage_;
  int first_, count_, calls_ = 0, failed_ = 0;
  bool breaks_devices_;
};

/** For the emulated libraries: returns true if the call that begins must fail. */
bool fails_in(LibraryStage stage);
/** Throws CudaError if the call that begins must fail. */
void reach_stage(LibraryStage stage, const char* call);

/** Number of algorithms of a library for each problem. */
inline constexpr int kLibraryAlgorithms = 3;

/** Makes all later calls on all devices fail with this text. */
MZ_API void break_devices(const std::string& what);
/** Makes the devices work again. */
MZ_API void mend_devices();

}  // namespace mezzo::emulator
