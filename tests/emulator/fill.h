// Logs of kernel launches with their grid sizes, to estimate how they fill a GPU; and dry runs, for
// nets that are too large for the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "../../tensor/core/macros.h"

namespace mezzo::emulator {

/** Multiprocessors of the reference GPU, an H100 or H200. */
inline constexpr std::int64_t kMultiprocessors = 132;

/** One launch of a kernel. */
struct MZ_API Launch {
  std::string kernel;         // function name, for example "softmax_kernel"
  std::int64_t blocks = 0;    // in the grid
  std::int64_t threads = 0;   // per block
  std::string instance = {};  // with template arguments, for example "softmax_kernel<float>"

  /** Returns the resident threads per multiprocessor, unless registers or shared memory allow
   *  fewer. */
  std::int64_t resident_threads() const;
  /** Returns the bytes in flight per multiprocessor if every thread waits for `bytes`. The number
   *  per thread follows from the machine code, which the emulator does not have. */
  std::int64_t bytes_in_flight(std::int64_t bytes) const { return resident_threads() * bytes; }
};

/** Scope that logs kernel launches in order, including those of replayed graphs. */
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

/** Scope in which work is counted and logged but not run: kernels and library calls compute
 *  nothing. Only small copies, as of flags and scales, are made; larger ones to the host give
 *  zeros. Other device memory is not touched, so tensors may exceed the host's memory. For one
 *  thread. */
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
