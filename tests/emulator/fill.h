// How launches fill a GPU: the kernels that ran and the size of each grid; and dry runs, for nets
// that are too large for the host.
// Sees: the standard library, ../../tensor/macros.h.
// Read next: fill.cpp, ../gpu/fill.cpp (the test).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "../../tensor/macros.h"

namespace mezzo::emulator {

/** The multiprocessors of the GPU that launches are to fill, an H100 or H200. */
inline constexpr std::int64_t kMultiprocessors = 132;

/** One launch of a kernel. */
struct MZ_API Launch {
  std::string kernel;        // its function's name: "softmax_kernel"
  std::int64_t blocks = 0;   // of the grid
  std::int64_t threads = 0;  // of a block

  /** Threads on each multiprocessor at once, unless registers or shared memory allow fewer. */
  std::int64_t resident_threads() const;
  /** Bytes under way to each multiprocessor where every thread waits for `bytes`. How many a thread
   *  waits for, the emulator does not see: it follows from the machine code. */
  std::int64_t bytes_in_flight(std::int64_t bytes) const { return resident_threads() * bytes; }
};

/** While it lives, the launches of kernels in their order, those of replayed graphs too. */
class MZ_API FillLog {
 public:
  FillLog();
  ~FillLog();
  FillLog(const FillLog&) = delete;
  FillLog& operator=(const FillLog&) = delete;
  std::vector<Launch> launches;

 private:
  FillLog* outer_;
};

/** While it lives, work is counted and logged but not done: kernels and library calls compute
 *  nothing, and of copies only small ones are made, as of flags and scales; larger ones to the host
 *  give zeros. Other device memory is not touched, so tensors may be larger than the host's memory.
 *  For one thread. */
class MZ_API DryRun {
 public:
  DryRun();
  ~DryRun();
  DryRun(const DryRun&) = delete;
  DryRun& operator=(const DryRun&) = delete;

  static constexpr std::size_t kCopied = 4096;  // bytes
  static bool is_on();
};

/** Logs a launch. */
void log_fill(const void* kernel, std::int64_t blocks, std::int64_t threads);

}  // namespace mezzo::emulator
