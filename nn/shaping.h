// Layers that change the shape, and Identity.
#pragma once

#include "model.h"

namespace mezzo::nn {

/** Returns its argument unchanged, where a model expects a layer but needs none. */
class MZ_API Identity : public Model<Identity> {
 public:
  /** Returns x itself. */
  Tensor forward(const Tensor& x) const;
};

/** Flattens dimensions start..end (inclusive; negative values count from the end) into one, by
 *  default all but the batch.
 *  Precision: follows the input. */
class MZ_API Flatten : public Model<Flatten> {
 public:
  /** Constructs the layer; `start` and `end` are inclusive. */
  explicit Flatten(std::int64_t start = 1, std::int64_t end = -1);

  /** Returns x.flatten(start, end). */
  Tensor forward(const Tensor& x) const;

 private:
  std::int64_t start_, end_;
};

/** Splits dimension dim into the given sizes, one of which may be -1. */
class MZ_API Unflatten : public Model<Unflatten> {
 public:
  /** Constructs the layer; `sizes` are checked at each call. */
  Unflatten(std::int64_t dim, const Shape& sizes);

  /** Returns x.unflatten(dim, sizes). */
  Tensor forward(const Tensor& x) const;

 private:
  std::int64_t dim_;
  Shape sizes_;
};

}  // namespace mezzo::nn
