#include "lambda.h"

#include "../tensor/text/text.h"

namespace mezzo::nn {

Lambda::Lambda(std::function<Tensor(const Tensor&)> function) : function_(std::move(function)) {
  if (!function_) fail<ValueError>("Lambda", {.what = "the function is empty"});
}

Tensor Lambda::forward(const Tensor& x) const { return function_(x); }

}  // namespace mezzo::nn
