#include "embedding.h"

#include "../../tensor/core/dispatch.h"
#include "../../tensor/ops/embedding.h"
#include "../../tensor/text/text.h"

namespace mezzo {

namespace {

/** Returns the row of padding_idx, counted from the front; -1 when there is none. */
std::int64_t padding_row(std::optional<std::int64_t> padding_idx, const Tensor& weight) {
  if (!padding_idx || !weight.defined() || weight.dim() != 2) return -1;
  const std::int64_t rows = weight.shape()[0];
  if (*padding_idx < -rows || *padding_idx >= rows)
    fail<ValueError>("embedding", {.what = "padding_idx is not a row of the table",
                                   .got = str(*padding_idx),
                                   .expected = str(-rows, "..", rows - 1)});
  return *padding_idx < 0 ? *padding_idx + rows : *padding_idx;
}

}  // namespace

Tensor embedding(const Tensor& index, const Tensor& weight, const EmbeddingOptions& options) {
  return apply_with<op::Embedding>(
      {padding_row(options.padding_idx, weight), options.scale_grad_by_freq}, index, weight);
}

}  // namespace mezzo
