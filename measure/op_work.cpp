#include "op_work.h"

namespace mezzo {

namespace {

double count(const Tensor& x) { return x.defined() ? static_cast<double>(x.numel()) : 0; }

double bytes(Inputs tensors) {
  double total = 0;
  for (const Tensor& x : tensors)
    if (x.defined()) total += count(x) * static_cast<double>(item_size(x.dtype()));
  return total;
}

/** Returns the arithmetic of attention: queries by keys, then probabilities by values. */
double attention_flops(Inputs in) {
  const Tensor &q = in[0], &k = in[1], &v = in[2];
  return 2 * count(q) * static_cast<double>(k.size(-2)) +
         2 * count(q) / static_cast<double>(q.size(-1)) *
             static_cast<double>(k.size(-2) * v.size(-1));
}

/** Returns the arithmetic of attention within one projection. */
double self_attention_flops(const Tensor& qkv) {
  return 4 * count(qkv) / 3 * static_cast<double>(qkv.size(1));
}

/** Returns the arithmetic of a recurrent layer: one multiply-add per weight, step and sequence. */
double recurrent_flops(const Tensor& x, const Tensor& w_ih, const Tensor& w_hh) {
  return 2 * static_cast<double>(x.size(0) * x.size(1)) * (count(w_ih) + count(w_hh));
}

/** Returns the multiplications and additions of ops that are products; 0 for all others. */
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
  if (name == "self_attention") return self_attention_flops(in[0]);
  if (name == "self_attention_backward") return 2.5 * self_attention_flops(in[1]);
  if (name == "recurrent_layer") return recurrent_flops(in[0], in[3], in[4]);
  if (name == "recurrent_layer_backward") return 2 * recurrent_flops(in[0], in[3], in[4]);
  return 0;
}

}  // namespace

OpWork op_work(const OpInfo& op, Inputs in, Inputs out) {
  if (op.composite != nullptr || op.view != nullptr) return {};
  const std::string_view name = op.traits.name;
  const double steps = name.starts_with("recurrent_layer") ? static_cast<double>(in[0].size(0)) : 0;
  return {flops_of(name, in, out), bytes(in) + bytes(out), steps};
}

OpWork backward_work(const OpInfo& op, Inputs gy, Inputs gradients) {
  if (!op.elementwise) return {};
  const bool passes_on = gradients.size() == 1 && gradients[0].impl() == gy[0].impl();
  if (passes_on) return {};  // a conversion whose gradient has the right dtype already
  return {0, bytes(gy) + 2 * bytes(gradients)};
}

}  // namespace mezzo
