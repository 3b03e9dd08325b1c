// Lambda: a function as a layer.
#pragma once

#include <functional>

#include "model.h"

namespace mezzo::nn {

/** Calls a function of one tensor, for a step between layers that has no parameters:
 *    nn::Sequential net{nn::Linear{4, 8}, nn::Lambda{[](const Tensor& x) { return x * x; }}};
 *  Precision: as the ops that the function calls.
 *  Errors: ValueError for an empty std::function; as the function. */
class MZ_API Lambda : public Model<Lambda> {
 public:
  /** Constructs the layer; the function is called once for each forward. */
  explicit Lambda(std::function<Tensor(const Tensor&)> function);

  /** Returns function(x). */
  Tensor forward(const Tensor& x) const;

 private:
  std::function<Tensor(const Tensor&)> function_;
};

}  // namespace mezzo::nn
