// Positions: layers that add to each step of a sequence a vector that says which step it is.
// Sees: model.h.
// Read next: transformer.h (which cannot tell steps apart without).
#pragma once

#include "model.h"

namespace mezzo::nn {

struct PositionOptions {
  bool batch_first = false;  // x is [N, T, E] instead of [T, N, E]
};

/** x plus a trained row for each step. Shape: x [T,N,E], [N,T,E] with batch_first, or [T,E]; kept. `first` is the number of x's first step,
 *  where it continues a sequence.
 *  Parameters: weight [max_length, dim] from N(0, 0.02^2).   Precision: follows x.
 *  Errors: ValueError for sizes below 1; when called: ShapeError for other features, IndexError beyond max_length. */
class MZ_API LearnedPositionalEmbedding : public Model<LearnedPositionalEmbedding> {
 public:
  LearnedPositionalEmbedding(std::int64_t max_length, std::int64_t dim, const PositionOptions& options = {});

  Tensor forward(const Tensor& x, std::int64_t first = 0) const;

  const Tensor& weight() const { return weight_; }

 private:
  PositionOptions options_;
  Tensor weight_;
};

/** x plus sines and cosines: step t gets sin(t / 10000^(i/E)) at even features i, cos of the same at the odd one behind. Nothing is trained or saved.
 *  Shape, errors: as LearnedPositionalEmbedding.   Precision: follows x; the table is f32.
 *  Source: Vaswani et al., Attention is all you need (2017). */
class MZ_API SinusoidalPositionalEmbedding : public Model<SinusoidalPositionalEmbedding> {
 public:
  SinusoidalPositionalEmbedding(std::int64_t max_length, std::int64_t dim,
                                const PositionOptions& options = {});

  Tensor forward(const Tensor& x, std::int64_t first = 0) const;

 private:
  PositionOptions options_;
  Tensor table_;
};

}  // namespace mezzo::nn
