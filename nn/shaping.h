// Layers that change the shape, and Identity.
#pragma once

#include "model.h"

namespace mezzo::nn {

/** Returns its argument. Useful as a placeholder for a layer. */
class MZ_API Identity : public Model<Identity> {
 public:
  Tensor forward(const Tensor& x) const;
};

/** Flattens dimensions start..end (inclusive; negative values count from the end) into one, by
 *  default all but the batch.
 *  Precision: follows the input. */
class MZ_API Flatten : public Model<Flatten> {
 public:
  explicit Flatten(std::int64_t start = 1, std::int64_t end = -1);

  Tensor forward(const Tensor& x) const;

 private:
  std::int64_t start_, end_;
};

/** Splits dimension dim into the given sizes, one of which may be -1. */
class MZ_API Unflatten : public Model<Unflatten> {
 public:
  Unflatten(std::int64_t dim, const Shape& sizes);

  Tensor forward(const Tensor& x) const;

 private:
  std::int64_t dim_;
  Shape sizes_;
};

}  // namespace mezzo::nn
