// detect_nonfinite: finds the first op that turned finite inputs into an infinity or NaN, forward
// or backward.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "../../tensor/core/dispatch.h"
#include "../../tensor/core/pointers.h"

namespace mezzo::amp {

/** A tensor in a report. */
struct WitnessedTensor {
  std::string tensor;  // "f16[8,64]@cpu"
  /** Smallest magnitude; 0 for a tensor that is empty or not floating-point. */
  double abs_min = 0, abs_max = 0;  // largest magnitude; 0 for such a tensor
};

/** The first op with a non-finite result from finite inputs. */
struct MZ_API NonfiniteReport {
  std::string op;                            // "exp", or "exp backward"
  std::string module;                        // dotted path; empty outside of a module
  WitnessedTensor output;                    // the non-finite result
  std::vector<WitnessedTensor> inputs = {};  // the op's inputs
  std::vector<std::string> last_ops = {};    // up to 20, oldest first, this one last

  /** Returns the report in one line, as it is logged. */
  std::string text() const;
};

/** Checks the result of every op of this thread until the end of the scope, forward and backward,
 *  casts included, and logs the first report as an error. Does not change values or errors. Costs
 *  a pass over every operand and result, and on a device a synchronisation per op. */
class MZ_API detect_nonfinite final : public NestedTrace {
 public:
  detect_nonfinite();
  ~detect_nonfinite();

  /** Returns the report; empty if all results were finite. */
  const std::optional<NonfiniteReport>& report() const;
  /** Drops the report, so that the next non-finite result is reported. */
  void reset();

  /** Checks the results of an op; called by the dispatcher. */
  void trace(const OpInfo& op, Inputs in, Outputs out) override;
  /** Suspends the checks: ops inside a backward function are not checked one by one. */
  void enter_backward(const OpInfo& op) override;
  /** Checks the gradients that the outermost backward function returned. */
  void leave_backward(const OpInfo& op, Inputs gy, Inputs gradients) override;

 private:
  void check(const std::string& op, Inputs in, Inputs out);

  int backward_depth_ = 0;  // backward functions that run, nested: checked as one op
  std::vector<std::string> last_ops_;
  struct State;
  Owner<State> state_;  // never null
};

}  // namespace mezzo::amp
