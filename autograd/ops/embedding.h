// Rows of a table looked up by index.
// Sees: tensor.
// Read next: index.h, ../../tensor/ops/embedding.h.
#pragma once

#include <optional>

#include "../../tensor/tensor.h"

namespace mezzo {

struct EmbeddingOptions {
  std::optional<std::int64_t> padding_idx = {};  // this row gets no gradient; negative counts from the end
  bool scale_grad_by_freq = false;  // divide each row's gradient by how often the row was looked up
};

/** The rows of a table that index names.
 *  Shape: index any, i64 or i32, 0..num-1; weight [num, dim]; returns [index.., dim].
 *  Precision: follows weight.   Gradient: rows of g summed by index in f32 (f64) in index order, rounded once; padding_idx's row gets 0.
 *  Errors: DtypeError, ShapeError, IndexError (names the first index out of range), ValueError for a padding_idx that is no row. */
MZ_API Tensor embedding(const Tensor& index, const Tensor& weight, const EmbeddingOptions& options = {});

}  // namespace mezzo
