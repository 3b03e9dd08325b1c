// Dropout: forgets elements at random while training.
// Sees: model.h.
// Read next: ../autograd/ops/random.h.
#pragma once

#include "model.h"

namespace mezzo::nn {

/** While training, zeroes elements with probability p and divides the others by 1 - p; returns its argument otherwise. Shape: any.
 *  Precision: follows the input.   Errors: ValueError unless 0 <= p <= 1. */
class MZ_API Dropout : public Model<Dropout> {
 public:
  explicit Dropout(double p = 0.5);

  Tensor forward(const Tensor& x) const;

 private:
  double p_;
};

}  // namespace mezzo::nn
