// The gradients of embedding and of embedding_grad.
#include "../../tensor/ops/embedding.h"

#include "../../tensor/core/dispatch.h"
#include "../grad_mode.h"
#include "../ops/create.h"
#include "../ops/embedding.h"
#include "../ops/index.h"
#include "../ops/operators.h"

namespace mezzo::op {

Grads Embedding::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<Embedding>();
  return {Tensor{}, apply_with<EmbeddingGrad>(
                        {saved.shape(1)[0], attrs.padding_idx, attrs.scale_grad_by_freq},
                        saved.inputs[0], gy[0])};
}

namespace {

/** Returns the factors of the looked-up rows' gradients as a column, one per index: 0 for padding,
 *  else 1, or 1 / count. */
Tensor row_factors(const Tensor& index, const EmbeddingGrad::Attrs& attrs, DType dtype) {
  const NoGrad no_grad;
  const TensorOptions options{.dtype = dtype, .device = index.device()};
  const Tensor flat = index.reshape({-1});
  Tensor factors = ones({flat.numel()}, options);
  if (attrs.scale_grad_by_freq)
    factors =
        factors / index_select(index_add(zeros({attrs.rows}, options), 0, flat, factors), 0, flat);
  factors = where(flat == attrs.padding_idx, zeros({}, options), factors);
  return factors.reshape(index.shape()).unsqueeze(-1);
}

}  // namespace

Grads EmbeddingGrad::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<EmbeddingGrad>();
  const Tensor rows = embedding(saved.inputs[0], gy[0]);
  const bool plain = attrs.padding_idx < 0 && !attrs.scale_grad_by_freq;
  if (plain) return {Tensor{}, rows};
  return {Tensor{}, rows * row_factors(saved.inputs[0], attrs, compute_dtype(rows.dtype()))};
}

}  // namespace mezzo::op
