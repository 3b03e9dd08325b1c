#include "linear.h"

#include <cmath>

#include "../tensor/ops/ops.h"
#include "../tensor/ops/require.h"
#include "arguments.h"
#include "init.h"

namespace mezzo::nn {

Linear::Linear(std::int64_t in_features, std::int64_t out_features, const LinearOptions& options) {
  detail::require_at_least(1, "Linear", "in_features", in_features);
  detail::require_at_least(1, "Linear", "out_features", out_features);
  weight_ = add_parameter("weight", empty({out_features, in_features}));
  if (options.bias) bias_ = add_parameter("bias", empty({out_features}));
  init::default_linear_(weight_, bias_);
  set_summary(str(in_features, ", ", out_features));
}

Linear::Linear(const Tensor& weight, bool bias) : weight_(add_parameter("weight", weight)) {
  const double bound = 1 / std::sqrt(static_cast<double>(weight.size(1)));
  if (bias)
    bias_ = init::uniform_(
        add_parameter("bias", empty({weight.size(0)}, {.dtype = weight.dtype()})), -bound, bound);
  set_summary(str(weight.size(1), ", ", weight.size(0), ", tied"));
}

Linear Linear::tied(const Tensor& weight, const LinearOptions& options) {
  require_defined("Linear", weight);
  if (weight.dim() != 2 || weight.numel() == 0)
    fail<ShapeError>("Linear", {.what = "the weight must be a non-empty matrix",
                                .got = str(weight),
                                .expected = "[out_features, in_features]"});
  return Linear(weight, options.bias);
}

Tensor Linear::forward(const Tensor& x) const { return linear(x, weight_, bias_); }

Tensor mlp(const Tensor& x, const std::vector<Linear>& layers, const MlpOptions& options) {
  std::vector<Tensor> weights, biases;
  for (const Linear& layer : layers) {
    detail::check_caller(layer.state());
    weights.push_back(layer.weight());
    biases.push_back(layer.bias());
  }
  return mezzo::mlp(x, weights, biases, options);
}

Bilinear::Bilinear(std::int64_t in1_features, std::int64_t in2_features, std::int64_t out_features,
                   const LinearOptions& options) {
  detail::require_at_least(1, "Bilinear", "in1_features", in1_features);
  detail::require_at_least(1, "Bilinear", "in2_features", in2_features);
  detail::require_at_least(1, "Bilinear", "out_features", out_features);
  const double bound = 1 / std::sqrt(static_cast<double>(in1_features));
  weight_ = init::uniform_(
      add_parameter("weight", empty({out_features, in1_features, in2_features})), -bound, bound);
  if (options.bias)
    bias_ = init::uniform_(add_parameter("bias", empty({out_features})), -bound, bound);
  set_summary(str(in1_features, ", ", in2_features, ", ", out_features));
}

Tensor Bilinear::forward(const Tensor& x1, const Tensor& x2) const {
  return bilinear(x1, x2, weight_, bias_);
}

}  // namespace mezzo::nn
