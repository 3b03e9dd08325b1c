// Embedding: a trained table of rows, looked up by index.
// Sees: model.h.
// Read next: ../autograd/ops/embedding.h.
#pragma once

#include "../autograd/ops/embedding.h"
#include "model.h"

namespace mezzo::nn {

/** The rows of a table that indices name. Shape: any shape of i64 or i32 in 0..num-1 gives [..., dim].
 *  Parameters: weight [num, dim] from N(0, 1), the padding row zero.   Precision: follows the weight.
 *  Errors: ValueError for sizes below 1 and a padding_idx that is no row; when called: as embedding(). */
class MZ_API Embedding : public Model<Embedding> {
 public:
  Embedding(std::int64_t num, std::int64_t dim, const EmbeddingOptions& options = {});

  Tensor forward(const Tensor& index) const;

  const Tensor& weight() const { return weight_; }

 private:
  EmbeddingOptions options_;
  Tensor weight_;
};

}  // namespace mezzo::nn
