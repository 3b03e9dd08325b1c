// Attention within one projection, and its gradient, in terms of the kernels of attention.
#include "../../core/row_major.h"
#include "attention.h"

namespace mezzo::op {

void SelfAttention::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  const auto [q, k, v] = heads_of_projection(in[0], attrs.heads);
  Tensor y = heads_of_rows(out[0], attrs.heads);
  const Tensor operands[] = {q, k, v, {}};
  Tensor results[] = {detail::contiguous_scratch(y), out[1]};
  Attention::cpu(operands, results, attrs.attention);
  detail::copy_into(results[0], y);
}

void SelfAttentionBackward::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  const auto [q, k, v] = heads_of_projection(in[1], attrs.heads);
  std::array<Tensor, 3> to = heads_of_projection(out[0], attrs.heads);
  const Tensor operands[] = {heads_of_rows(in[0], attrs.heads), q,    k, v, {},
                             heads_of_rows(in[2], attrs.heads), in[3]};
  Tensor results[] = {detail::contiguous_scratch(q),
                      detail::contiguous_scratch(k),
                      detail::contiguous_scratch(v),
                      {}};
  AttentionBackward::cpu(operands, results, {attrs.attention});
  for (std::size_t i = 0; i < 3; ++i) detail::copy_into(results[i], to[i]);
}

}  // namespace mezzo::op
