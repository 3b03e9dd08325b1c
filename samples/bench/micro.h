// bench --micro: the cost of single operations against baselines, of mixed precision, and of a
// GPU's kernels against its limits.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "workload.h"

namespace samples {

/** A measurement of a single operation. */
struct MicroResult {
  std::string what;
  double value;
  std::string unit;
  std::string target;      // the project's target; empty for none
  std::string error = {};  // error of a failed measurement, which has no value
};

/** A list of results. It passes each result to a function when it is added. */
class MicroResults {
 public:
  explicit MicroResults(std::function<void(const MicroResult&)> row) : row_(std::move(row)) {}

  void push_back(const MicroResult& result) {
    rows_.push_back(result);
    row_(result);
  }
  /** Calls f(). An exception becomes a result with an error. */
  template <class F> void attempt(const std::string& what, F&& f) {
    try {
      f();
    } catch (const std::exception& e) {
      push_back({what, 0, "", "", e.what()});
    }
  }

  const std::vector<MicroResult>& rows() const { return rows_; }

 private:
  std::function<void(const MicroResult&)> row_;
  std::vector<MicroResult> rows_;
};

/** Runs all measurements, which takes a few seconds. */
void run_micro(MicroResults& results);

/** Measures the copy bandwidth, the share of it that optimizer and norms reach, matrix products
 *  with cuBLASLt's heuristic relative to its fastest algorithm, and captured training steps. The
 *  targets are for a GPU of the H100's class and --size full. A failed measurement becomes a result
 *  with an error. */
void run_gpu_micro(mezzo::Device device, Size size, MicroResults& results);

/** Measures ratios of times with interleaved calls, which takes a few seconds. */
void measure_mixed_precision(MicroResults& results);

}  // namespace samples
