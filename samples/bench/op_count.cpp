#include "op_count.h"

#include <algorithm>

#include "stopwatch.h"

namespace samples {

using namespace mezzo;

namespace {

double count(const Tensor& x) { return x.defined() ? static_cast<double>(x.numel()) : 0; }

double bytes(const Tensor& x) {
  return x.defined() ? count(x) * static_cast<double>(item_size(x.dtype())) : 0;
}

double bytes(Inputs tensors) {
  double total = 0;
  for (const Tensor& x : tensors) total += bytes(x);
  return total;
}

/** Queries by keys, then probabilities by values. */
double attention_flops(Inputs in) {
  const Tensor &q = in[0], &k = in[1], &v = in[2];
  return 2 * count(q) * static_cast<double>(k.size(-2)) +
         2 * count(q) / static_cast<double>(q.size(-1)) * static_cast<double>(k.size(-2) * v.size(-1));
}

/** Each weight meets every step of every sequence. */
double recurrent_flops(const Tensor& x, const Tensor& w_ih, const Tensor& w_hh) {
  return 2 * static_cast<double>(x.size(0) * x.size(1)) * (count(w_ih) + count(w_hh));
}

/** Multiplications and additions of ops that are products; 0 for all others, whose time is that of the memory. */
double flops_of(std::string_view name, Inputs in, Inputs out) {
  if (name == "linear_weight_grads")  // operands: the gradient of the result, the input
    return 2 * count(out[0]) * static_cast<double>(in[0].size(0));
  if (name.starts_with("linear") || name == "matmul" || name == "mm" || name == "bmm" || name == "mv")
    return 2 * count(out[0]) * static_cast<double>(in[0].size(-1));
  if (name == "addmm" || name == "baddbmm") return 2 * count(out[0]) * static_cast<double>(in[1].size(-1));
  if (name.starts_with("conv_transpose"))
    return 2 * count(in[0]) * count(in[1]) / static_cast<double>(in[1].size(0));
  if (name == "conv_weight")  // operands: the input, the gradient of the result
    return 2 * count(in[1]) * count(out[0]) / static_cast<double>(out[0].size(0));
  if (name.starts_with("conv")) return 2 * count(out[0]) * count(in[1]) / static_cast<double>(in[1].size(0));
  if (name == "scaled_dot_product_attention") return attention_flops(in);
  if (name == "attention_backward") return 2.5 * attention_flops(in);  // five products instead of two
  if (name == "recurrent_layer") return recurrent_flops(in[0], in[3], in[4]);
  if (name == "recurrent_layer_backward") return 2 * recurrent_flops(in[0], in[3], in[4]);
  return 0;
}

}  // namespace

OpCount::OpCount() : previous_(thread_hooks().trace) { thread_hooks().trace = this; }
OpCount::~OpCount() { thread_hooks().trace = previous_; }

void OpCount::trace(const OpRow& row, Inputs in, Outputs out) {
  if (row.composite != nullptr || row.view != nullptr) return;  // counted by what it calls; moves nothing
  work_.flops += flops_of(row.traits.name, in, out);
  work_.bytes += bytes(in) + bytes(out);
}

void OpCount::leave_backward(const OpRow& row, Inputs gy, Inputs gradients) {
  // Of other ops the rule's own calls are counted. An elementwise one reads an operand or the result for each gradient it makes.
  if (row.elementwise) work_.bytes += bytes(gy) + 2 * bytes(gradients);
}

double update_bytes(const optim::Optimizer& optimizer) {
  double total = 0;
  for (std::size_t group = 0; group < optimizer.num_groups(); ++group)
    for (const optim::Slot& slot : optimizer.slots(group)) {
      total += 2 * bytes(slot.target()) + bytes(slot.param);  // the value before and after, and its gradient
      if (slot.master.defined()) total += bytes(slot.param);  // the 16-bit copy
      for (const Tensor& state : slot.state) total += 2 * bytes(state);
    }
  return total;
}

Roof measure_roof(Device device) {
  const NoGrad no_grad;
  constexpr std::int64_t kLong = 1 << 24, kMostSide = 8192;
  const TensorOptions there{.device = device};
  // Calls in a row, so that waiting for a device counts for little.
  const auto best = [&](auto&& f) {
    constexpr double kWanted = 5e-3;
    const auto batch_of = [&](int calls) {
      for (int i = 0; i < calls; ++i) f();
      if (device != cpu) gpu::synchronize(device);
    };
    batch_of(1);
    const int calls = static_cast<int>(std::clamp(kWanted / seconds([&] { batch_of(1); }), 1.0, 100.0));
    double least = 1e30;
    for (int i = 0; i < 5; ++i) least = std::min(least, seconds([&] { batch_of(calls); }) / calls);
    return least;
  };
  // A product that is done in no time does not fill a device.
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

Floor floor_of(const Work& work, const Roof& roof) {
  return {work.flops / roof.flops_per_s, work.bytes / roof.bytes_per_s};
}

}  // namespace samples
