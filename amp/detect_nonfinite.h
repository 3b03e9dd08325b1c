// detect_nonfinite: finds the op that made the first infinity or NaN out of finite numbers, forward or backward.
// Sees: tensor/nested_trace.h.
// Read next: detect_nonfinite.cpp.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "../tensor/nested_trace.h"

namespace mezzo::amp {

/** A tensor at the scene. */
struct WitnessedTensor {
  std::string tensor;  // "f16[8,64]@cpu"
  double abs_min = 0, abs_max = 0;
};

/** The first op that gave a value that is not finite although all its inputs were. */
struct MZ_API NonfiniteReport {
  std::string op;      // "exp", or "exp backward"
  std::string module;  // dotted path; empty outside of one
  WitnessedTensor output;
  std::vector<WitnessedTensor> inputs = {};
  std::vector<std::string> last_ops = {};  // up to 20, oldest first, this one last

  /** In one line, as it is logged. */
  std::string text() const;
};

/** Looks at the result of every op of this thread until the end of the scope, forward and backward, casts among them, and logs the first report as an error.
 *  It only watches: values and errors stay as they are. Costs a pass over every operand and result, and on a device a synchronisation per op. */
class MZ_API detect_nonfinite final : public NestedTrace {
 public:
  detect_nonfinite() : NestedTrace("detect_nonfinite: guards must close in reverse order of opening") {}

  /** Empty while nothing was found. */
  const std::optional<NonfiniteReport>& report() const { return report_; }
  /** Forgets the report, so that the next one is caught. */
  void reset() { report_.reset(); }

  void trace(const OpRow& row, Inputs in, Outputs out) override;
  void enter_backward(const OpRow& row) override;
  void leave_backward(const OpRow& row, Inputs gy, Inputs gradients) override;

 private:
  void judge(const std::string& op, Inputs in, Inputs out);

  int rules_ = 0;  // backward rules that run now, one inside the other: what they call is judged as one
  std::vector<std::string> last_ops_;
  std::optional<NonfiniteReport> report_;
};

}  // namespace mezzo::amp
