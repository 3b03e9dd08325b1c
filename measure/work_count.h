// WorkCount: counts the arithmetic and memory traffic of the ops of a step.
#pragma once

#include <vector>

#include "../optim/optimizer.h"
#include "../tensor/core/dispatch.h"
#include "op_work.h"
#include "roof.h"

namespace mezzo {

/** The work of ops. */
class MZ_API StepWork {
 public:
  /** Adds the work of an op, whose product, if it is one, has operands of this dtype. */
  void add(const OpWork& work, DType operands);
  /** Adds the update of an optimizer: the bytes that it reads and writes for gradients, weights,
   *  masters and optimizer state. */
  void add_update(const optim::Optimizer& optimizer);

  /** Returns the sum over all ops. */
  OpWork total() const;
  /** Returns the sum of the lower bounds of time of all ops, in seconds. */
  double floor(const Roof& roof) const;

 private:
  struct Entry {
    OpWork work;
    DType operands;
  };
  std::vector<Entry> entries_;
};

/** Scope that counts the work of this thread's ops, with backward passes. */
class MZ_API WorkCount final : public NestedTrace {
 public:
  WorkCount() { allow_fused_ops(); }
  /** Returns the work so far. */
  const StepWork& work() const { return work_; }

 private:
  void trace(const OpInfo& op, Inputs in, Outputs out) override;
  void leave_backward(const OpInfo& op, Inputs gy, Inputs gradients) override;

  StepWork work_;
};

}  // namespace mezzo
