#include "embedding.h"

#include "../../tensor/core/dispatch.h"
#include "../../tensor/ops/embedding.h"

namespace mezzo {

Tensor embedding(const Tensor& index, const Tensor& weight, const EmbeddingOptions& options) {
  op::Embedding::Attrs attrs{.scale_grad_by_freq = options.scale_grad_by_freq};
  if (options.padding_idx && weight.defined() && weight.dim() == 2)
    attrs.padding_idx = op::padding_row("embedding", *options.padding_idx, weight.shape()[0]);
  return apply_with<op::Embedding>(attrs, index, weight);
}

}  // namespace mezzo
