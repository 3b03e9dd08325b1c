// OpCount: what a stretch of a program computes and moves, counted op by op; and how fast this machine could do that at best.
// Sees: mezzo.h.
// Read next: op_count.cpp (what counts as how much).
#pragma once

#include <mezzo.h>

namespace samples {

/** Arithmetic of products (matrix products, convolutions, attention, recurrent layers) and the memory that every op reads and writes. */
struct Work {
  double flops = 0;
  double bytes = 0;
};

/** Counts what this thread's ops do until the end of the scope, backward passes included. */
class OpCount final : mezzo::TraceHook {
 public:
  OpCount();
  ~OpCount();
  OpCount(const OpCount&) = delete;
  OpCount& operator=(const OpCount&) = delete;

  const Work& work() const { return work_; }

 private:
  void trace(const mezzo::OpRow& row, mezzo::Inputs in, mezzo::Outputs out) override;
  void leave_backward(const mezzo::OpRow& row, mezzo::Inputs gy, mezzo::Inputs gradients) override;

  mezzo::TraceHook* previous_;
  Work work_;
};

/** Bytes that one update of an optimizer reads and writes: gradients, weights, masters and whatever it keeps for each. */
double update_bytes(const mezzo::optim::Optimizer& optimizer);

/** What a device did in the best of a few tries of one large f32 product and one long sum. */
struct Roof {
  double flops_per_s = 0;
  double bytes_per_s = 0;
};
Roof measure_roof(mezzo::Device device);

/** Seconds that the work takes at least under that roof: arithmetic alone, and memory alone. */
struct Floor {
  double arithmetic = 0, memory = 0;
};
Floor floor_of(const Work& work, const Roof& roof);

}  // namespace samples
