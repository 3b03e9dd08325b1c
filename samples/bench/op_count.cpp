#include "op_count.h"

#include <algorithm>

#include "stopwatch.h"

namespace samples {

using namespace mezzo;

namespace {

double bytes(const Tensor& x) {
  return x.defined() ? static_cast<double>(x.numel()) * static_cast<double>(item_size(x.dtype()))
                     : 0;
}

}  // namespace

OpCount::OpCount() : previous_(thread_hooks().trace) { thread_hooks().trace = this; }
OpCount::~OpCount() { thread_hooks().trace = previous_; }

void OpCount::trace(const OpInfo& op, Inputs in, Outputs out) { work_ += op_work(op, in, out); }

void OpCount::leave_backward(const OpInfo& op, Inputs gy, Inputs gradients) {
  work_ += backward_work(op, gy, gradients);
}

double update_bytes(const optim::Optimizer& optimizer) {
  double total = 0;
  for (std::size_t group = 0; group < optimizer.num_groups(); ++group)
    for (const optim::Slot& slot : optimizer.slots(group)) {
      // The old and the new value, and the gradient.
      total += 2 * bytes(slot.target()) + bytes(slot.param);
      if (slot.master.defined()) total += bytes(slot.param);  // the 16-bit copy
      for (const Tensor& state : slot.state) total += 2 * bytes(state);
    }
  return total;
}

Roof measure_roof(Device device) {
  const NoGrad no_grad;
  constexpr std::int64_t kLong = 1 << 24, kMostSide = 8192;
  const TensorOptions there{.device = device};
  // Several calls before each synchronisation, so that its cost is negligible.
  const auto best = [&](auto&& f) {
    constexpr double kWanted = 5e-3;
    const auto batch_of = [&](int calls) {
      for (int i = 0; i < calls; ++i) f();
      if (device != cpu) gpu::synchronize(device);
    };
    batch_of(1);
    const int calls =
        static_cast<int>(std::clamp(kWanted / seconds([&] { batch_of(1); }), 1.0, 100.0));
    double least = 1e30;
    for (int i = 0; i < 5; ++i) least = std::min(least, seconds([&] { batch_of(calls); }) / calls);
    return least;
  };
  // Increases the size until a product takes 1 ms, because small products do not fill a device.
  std::int64_t side = 512;
  double product = 0;
  while (product < 1e-3 && side < kMostSide) {
    side *= 2;
    const Tensor a = ones({side, side}, there);
    product = best([&] { return matmul(a, a); });
  }
  const auto n = static_cast<double>(side);
  const Tensor x = ones({kLong}, there), y = ones({kLong}, there);
  return {2 * n * n * n / product, 3.0 * sizeof(float) * kLong / best([&] { return add(x, y); })};
}

Floor floor_of(const OpWork& work, const Roof& roof) {
  return {work.flops / roof.flops_per_s, work.bytes / roof.bytes_per_s};
}

}  // namespace samples
