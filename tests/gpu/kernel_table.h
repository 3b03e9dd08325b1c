// KernelTable: the kernels, copies and fills of some training steps, by time.
// KernelTrace: records them by CUPTI, which is loaded at run time.
#pragma once

#include <cstdint>
#include <map>
#include <string>

/** Work on a device, by name and size. */
class KernelTable {
 public:
  /** Counts one run. `name`: may be mangled; `size`: of the grid and its blocks, or empty. */
  void add(const std::string& name, const std::string& size, double nanoseconds, int registers,
           std::int64_t shared_bytes);

  /** Returns a title with the sums, and a line for each kernel, the slowest first: microseconds per
   *  step, percent, runs per step, mean and least microseconds of a run, registers, bytes of shared
   *  memory, name and size. */
  std::string text(const std::string& title, int steps) const;

 private:
  struct Row {
    double sum = 0, least = 0;
    std::int64_t runs = 0, shared = 0;
    int registers = 0;
  };
  std::map<std::pair<std::string, std::string>, Row> rows_;
};

/** Records what the devices run. One at a time. */
class KernelTrace {
 public:
  /** Begins. Throws std::runtime_error if CUPTI cannot be loaded or fails, or if the program was
   *  built without it. The devices must be idle, here and in finish(). */
  KernelTrace();
  ~KernelTrace();
  KernelTrace(const KernelTrace&) = delete;
  KernelTrace& operator=(const KernelTrace&) = delete;

  /** Ends, and returns what was recorded. */
  KernelTable finish();

 private:
  [[maybe_unused]] bool running_ = true;
};
