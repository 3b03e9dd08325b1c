// Positional embeddings: layers that add a position-dependent vector to each step of a sequence.
#pragma once

#include "model.h"

namespace mezzo::nn {

/** Options of the positional embeddings. */
struct PositionOptions {
  bool batch_first = false;  // x is [N, T, E] instead of [T, N, E]
};

/** Adds a trained row to each step. `first` is the position of x's first step; pass it when x
 *  continues a sequence.
 *  Shape: x [T,N,E], [N,T,E] with batch_first, or [T,E]; the result has the same shape.
 *  Parameters: weight [max_length, dim] from N(0, 0.02^2).
 *  Precision: follows x.
 *  Errors: ValueError for sizes below 1; calls throw ShapeError for a wrong number of features and
 *  IndexError beyond max_length. */
class MZ_API LearnedPositionalEmbedding : public Model<LearnedPositionalEmbedding> {
 public:
  /** Constructs a table of max_length rows with dim features each. */
  LearnedPositionalEmbedding(std::int64_t max_length, std::int64_t dim,
                             const PositionOptions& options = {});

  /** Returns x plus rows first..first+T-1 of the table, converted to x's dtype. */
  Tensor forward(const Tensor& x, std::int64_t first = 0) const;

  /** Returns rows first..first+steps-1 of the table, in its dtype.
   *  Errors: IndexError beyond max_length. */
  Tensor rows(std::int64_t steps, std::int64_t first = 0) const;

  /** Returns the table, [max_length, dim]. */
  const Tensor& weight() const { return weight_; }

 private:
  PositionOptions options_;
  Tensor weight_;
};

/** Adds sines and cosines to each step: sin(t / 10000^(i/E)) of step t to even features i, and the
 *  cosine of the same angle to feature i + 1. Nothing is trained or saved.
 *  Shape, errors: as LearnedPositionalEmbedding.
 *  Precision: follows x; the table is f32.
 *  Source: Vaswani et al., Attention is all you need (2017). */
class MZ_API SinusoidalPositionalEmbedding : public Model<SinusoidalPositionalEmbedding> {
 public:
  /** Constructs a table of max_length rows with dim features each. */
  SinusoidalPositionalEmbedding(std::int64_t max_length, std::int64_t dim,
                                const PositionOptions& options = {});

  /** Returns x plus rows first..first+T-1 of the table, converted to x's dtype and device. */
  Tensor forward(const Tensor& x, std::int64_t first = 0) const;

 private:
  PositionOptions options_;
  Tensor table_;
};

}  // namespace mezzo::nn
