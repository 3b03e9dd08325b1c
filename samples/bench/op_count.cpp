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

/** Returns the arithmetic of attention: queries by keys, then probabilities by values. */
double attention_flops(Inputs in) {
  const Tensor &q = in[0], &k = in[1], &v = in[2];
  return 2 * count(q) * static_cast<double>(k.size(-2)) +
         2 * count(q) / static_cast<double>(q.size(-1)) *
             static_cast<double>(k.size(-2) * v.size(-1));
}

/** Returns the arithmetic of a recurrent layer: one multiply-add per weight, step and sequence. */
double recurrent_flops(const Tensor& x, const Tensor& w_ih, const Tensor& w_hh) {
  return 2 * static_cast<double>(x.size(0) * x.size(1)) * (count(w_ih) + count(w_hh));
}

/** Returns the multiplications and additions of ops that are products; 0 for all others, which are
 *  limited by memory bandwidth. */
double flops_of(std::string_view name, Inputs in, Inputs out) {
  if (name == "linear_weight_grads")  // operands: the gradient of the result, the input
    return 2 * count(out[0]) * static_cast<double>(in[0].size(0));
  if (name.starts_with("linear") || name == "matmul" || name == "mm" || name == "bmm" ||
      name == "mv")
    return 2 * count(out[0]) * static_cast<double>(in[0].size(-1));
  if (name == "addmm" || name == "baddbmm")
    return 2 * count(out[0]) * static_cast<double>(in[1].size(-1));
  if (name.starts_with("conv_transpose"))
    return 2 * count(in[0]) * count(in[1]) / static_cast<double>(in[1].size(0));
  if (name == "conv_weight")  // operands: the input, the gradient of the result
    return 2 * count(in[1]) * count(out[0]) / static_cast<double>(out[0].size(0));
  if (name.starts_with("conv"))
    return 2 * count(out[0]) * count(in[1]) / static_cast<double>(in[1].size(0));
  if (name == "scaled_dot_product_attention") return attention_flops(in);
  if (name == "attention_backward")
    return 2.5 * attention_flops(in);  // five products instead of two
  if (name == "recurrent_layer") return recurrent_flops(in[0], in[3], in[4]);
  if (name == "recurrent_layer_backward") return 2 * recurrent_flops(in[0], in[3], in[4]);
  return 0;
}

}  // namespace

OpCount::OpCount() : previous_(thread_hooks().trace) { thread_hooks().trace = this; }
OpCount::~OpCount() { thread_hooks().trace = previous_; }

void OpCount::trace(const OpInfo& op, Inputs in, Outputs out) {
  // The ops that a composite calls are counted; a view moves no data.
  if (op.composite != nullptr || op.view != nullptr) return;
  work_.flops += flops_of(op.traits.name, in, out);
  work_.bytes += bytes(in) + bytes(out);
}

void OpCount::leave_backward(const OpInfo& op, Inputs gy, Inputs gradients) {
  // An elementwise op reads an operand or the result for each gradient that it computes. For other
  // ops, the ops called by their gradient rule are counted.
  if (op.elementwise) work_.bytes += bytes(gy) + 2 * bytes(gradients);
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

Floor floor_of(const Work& work, const Roof& roof) {
  return {work.flops / roof.flops_per_s, work.bytes / roof.bytes_per_s};
}

}  // namespace samples
