#include "embedding.h"

#include "../tensor/core/dispatch.h"
#include "../tensor/ops/index/embedding.h"
#include "arguments.h"
#include "init.h"

namespace mezzo::nn {

Embedding::Embedding(std::int64_t num, std::int64_t dim, const EmbeddingOptions& options)
    : options_(options) {
  detail::require_at_least(1, "Embedding", "num", num);
  detail::require_at_least(1, "Embedding", "dim", dim);
  if (options.padding_idx) op::padding_row("Embedding", *options.padding_idx, num);
  weight_ = add_parameter("weight", empty_tensor({num, dim}, DType::f32, cpu));
  init::normal_(weight_);
  if (options.padding_idx) init::zeros_(weight_.detach().select(0, *options.padding_idx));
  set_summary(options.padding_idx ? str(num, ", ", dim, ", padding_idx ", *options.padding_idx)
                                  : str(num, ", ", dim));
}

Tensor Embedding::forward(const Tensor& index) const { return embedding(index, weight_, options_); }

Tensor Embedding::late(const Tensor& index) const {
  if (wraps_calls()) return (*this)(index);
  const detail::ModuleCall call(state());
  return op::late_embedding(index, weight_, options_);
}

}  // namespace mezzo::nn
