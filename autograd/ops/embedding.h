// Looking up rows of a table by index. ops.h explains the notation and the precision tags.
#pragma once

#include <optional>

#include "../../tensor/core/tensor.h"

namespace mezzo {

/** Options of embedding. */
struct EmbeddingOptions {
  std::optional<std::int64_t> padding_idx =
      {};                           // this row gets no gradient; negative counts from the end
  bool scale_grad_by_freq = false;  // divide each row's gradient by how often the row was looked up
};

/** Returns the rows of `weight` that `index` selects.
 *  Shape: index of any shape, i64 or i32, 0..num-1; weight [num, dim]; returns [index.., dim].
 *  Precision: match, for weight.
 *  Gradient: rows of g summed by index in f32 (f64) in index order, rounded once; 0 for the row of
 *  padding_idx.
 *  Errors: DtypeError, ShapeError; IndexError (names the first index out of range); ValueError for
 *  a padding_idx that is not a row. */
MZ_API Tensor embedding(const Tensor& index, const Tensor& weight,
                        const EmbeddingOptions& options = {});

}  // namespace mezzo
