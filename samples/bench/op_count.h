// OpCount: counts the arithmetic and memory traffic of ops. Roof and Floor: the machine's limits
// and the resulting lower bounds of time.
#pragma once

#include <mezzo.h>

namespace samples {

/** Scope that counts the work of this thread's ops, including backward passes. */
class OpCount final : mezzo::TraceHook {
 public:
  OpCount();
  ~OpCount();
  OpCount(const OpCount&) = delete;
  OpCount& operator=(const OpCount&) = delete;

  const mezzo::OpWork& work() const { return work_; }

 private:
  void trace(const mezzo::OpInfo& op, mezzo::Inputs in, mezzo::Outputs out) override;
  void leave_backward(const mezzo::OpInfo& op, mezzo::Inputs gy, mezzo::Inputs gradients) override;

  mezzo::TraceHook* previous_;
  mezzo::OpWork work_;
};

/** Returns the bytes that one update of an optimizer reads and writes: gradients, weights, masters
 *  and optimizer state. */
double update_bytes(const mezzo::optim::Optimizer& optimizer);

/** The limits of a device: its speed in the best of a few large f32 products and long sums. */
struct Roof {
  double flops_per_s = 0;
  double bytes_per_s = 0;
};
/** Measures the limits of a device. */
Roof measure_roof(mezzo::Device device);

/** Lower bounds of time in seconds: for arithmetic only, and for memory traffic only. */
struct Floor {
  double arithmetic = 0, memory = 0;
};
/** Returns the lower bounds of time for some work. */
Floor floor_of(const mezzo::OpWork& work, const Roof& roof);

}  // namespace samples
