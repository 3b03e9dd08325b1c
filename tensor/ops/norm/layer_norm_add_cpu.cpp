// The layer norm of a sum, and its gradient, in terms of the kernels of layer_norm and add.
#include "../../core/registry.h"
#include "../elementwise/arithmetic.h"
#include "layer_norm.h"

namespace mezzo::op {

namespace {

/** Writes a + b to `out`, which may be one of them. */
void add_into(const Tensor& a, const Tensor& b, Tensor& out) {
  const Tensor in[] = {a, b};
  constexpr Add::Attrs attrs;
  static const OpInfo& info = *find_op(Add::traits.name);
  info.kernel[static_cast<std::size_t>(DeviceKind::cpu)](info, Inputs(in), {&out, 1}, &attrs);
}

}  // namespace

void AddLayerNorm::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  add_into(in[0], in[1], out[0]);
  const Tensor normalised[] = {out[0], in[2], in[3]};
  LayerNorm::cpu(normalised, out.subspan(1), attrs);
}

void AddLayerNormBackward::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  LayerNormBackward::cpu(in.first(5), out, attrs);
  add_into(out[0], in[5], out[0]);
}

}  // namespace mezzo::op
