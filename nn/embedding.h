// Embedding: a trained table whose rows are selected by index.
#pragma once

#include "../tensor/ops/index/embedding.h"
#include "model.h"

namespace mezzo::nn {

/** Returns the rows of a trained table that the indices select.
 *  Shape: indices of any shape, i64 or i32 in 0..num-1, give [..., dim].
 *  Parameters: weight [num, dim] from N(0, 1); the padding row is zero.
 *  Precision: follows the weight.
 *  Errors: ValueError for sizes below 1 and a padding_idx out of range; calls throw as embedding()
 *  does. */
class MZ_API Embedding : public Model<Embedding> {
 public:
  /** Constructs a table of `num` rows with `dim` features each. */
  Embedding(std::int64_t num, std::int64_t dim, const EmbeddingOptions& options = {});

  /** Returns embedding(index, weight()) with the layer's options. */
  Tensor forward(const Tensor& index) const;

  /** Returns the same rows. On a GPU they are looked up when they are first read, or by
   *  add_layer_norm() in its own launch. Table and indices must stay as they are until then.
   *  Errors: as of a call; StateError if one of them was modified before the rows are read. */
  Tensor late(const Tensor& index) const;

  /** Returns the table, [num, dim]. */
  const Tensor& weight() const { return weight_; }

 private:
  EmbeddingOptions options_;
  Tensor weight_;
};

}  // namespace mezzo::nn
