// Attention within one projection on the device: by cuDNN in place, else by the kernels of
// attention and copies of their results.
#include "../../tensor/core/row_major.h"
#include "../../tensor/ops/attention.h"
#include "../attach.h"
#include "../dnn/attention_library.h"

namespace mezzo::gpu {

namespace {

using op::heads_of_projection;
using op::heads_of_rows;

void self_attention(Inputs in, Outputs out, const op::SelfAttention::Attrs& attrs) {
  const auto [q, k, v] = heads_of_projection(in[0], attrs.heads);
  const Tensor operands[] = {q, k, v, {}};
  Tensor results[] = {heads_of_rows(out[0], attrs.heads), out[1]};
  if (attention_by_library(operands, results, attrs.attention)) return;
  with_row_major(results[0], [&](const Tensor& y) {
    Tensor dense[] = {y, out[1]};
    if (!attention_by_library(operands, dense, attrs.attention))
      own_attention(operands, dense, attrs.attention);
  });
}

void self_attention_backward(Inputs in, Outputs out, const op::SelfAttention::Attrs& attrs) {
  const auto [q, k, v] = heads_of_projection(in[1], attrs.heads);
  const std::array<Tensor, 3> to = heads_of_projection(out[0], attrs.heads);
  const op::AttentionBackward::Attrs wanted{attrs.attention};
  const Tensor operands[] = {heads_of_rows(in[0], attrs.heads), q,    k, v, {},
                             heads_of_rows(in[2], attrs.heads), in[3]};
  Tensor results[] = {to[0], to[1], to[2], {}};
  if (attention_backward_by_library(operands, results, wanted)) return;
  Tensor dense[4];
  for (std::size_t i = 0; i < 3; ++i) dense[i] = mezzo::detail::contiguous_scratch(to[i]);
  if (!attention_backward_by_library(operands, dense, wanted))
    own_attention_backward(operands, dense, wanted);
  for (std::size_t i = 0; i < 3; ++i) mezzo::detail::copy_into(dense[i], results[i]);
}

}  // namespace

void attach_attention_self() {
  attach<op::SelfAttention, self_attention>();
  attach<op::SelfAttentionBackward, self_attention_backward>();
}

}  // namespace mezzo::gpu
