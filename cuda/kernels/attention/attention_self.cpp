// Attention within one projection on the device: by cuDNN or by the kernels of attention, in place.
#include "../../../tensor/core/row_major.h"
#include "../../../tensor/ops/attention/attention.h"
#include "../../attach.h"
#include "../../dnn/attention_library.h"

namespace mezzo::gpu {

namespace {

using op::heads_of_projection;
using op::heads_of_rows;

/** Computes `count` results with cuDNN in contiguous memory and copies them, where cuDNN does not
 *  serve their strides. Returns false if it does not serve the call. */
template <class Call>
bool by_library_with_copies(std::span<Tensor> results, std::size_t count, const Call& call) {
  if (!is_low(results[0].dtype())) return false;
  std::vector<Tensor> dense(results.begin(), results.end());
  for (std::size_t i = 0; i < count; ++i) dense[i] = mezzo::detail::contiguous_scratch(results[i]);
  if (!call(dense)) return false;
  for (std::size_t i = 0; i < count; ++i) mezzo::detail::copy_into(dense[i], results[i]);
  return true;
}

void self_attention(Inputs in, Outputs out, const op::SelfAttention::Attrs& attrs) {
  const auto [q, k, v] = heads_of_projection(in[0], attrs.heads);
  const Tensor operands[] = {q, k, v, {}};
  Tensor results[] = {heads_of_rows(out[0], attrs.heads), out[1]};
  const auto by_library = [&](Outputs to) {
    return attention_by_library(operands, to, attrs.attention);
  };
  if (by_library(results) || by_library_with_copies(results, 1, by_library)) return;
  own_attention(operands, results, attrs.attention);
}

void self_attention_backward(Inputs in, Outputs out, const op::SelfAttention::Attrs& attrs) {
  const auto [q, k, v] = heads_of_projection(in[1], attrs.heads);
  const auto [dq, dk, dv] = heads_of_projection(out[0], attrs.heads);
  const op::AttentionBackward::Attrs wanted{attrs.attention};
  const Tensor operands[] = {heads_of_rows(in[0], attrs.heads), q,    k, v, {},
                             heads_of_rows(in[2], attrs.heads), in[3]};
  Tensor results[] = {dq, dk, dv, {}};
  const auto by_library = [&](Outputs to) {
    return attention_backward_by_library(operands, to, wanted);
  };
  if (by_library(results) || by_library_with_copies(results, 3, by_library)) return;
  own_attention_backward(operands, results, wanted);
}

}  // namespace

void attach_attention_self() {
  attach<op::SelfAttention, self_attention>();
  attach<op::SelfAttentionBackward, self_attention_backward>();
}

}  // namespace mezzo::gpu
