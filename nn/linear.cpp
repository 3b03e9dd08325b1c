#include "linear.h"

#include "../autograd/ops.h"
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

Tensor Linear::forward(const Tensor& x) const { return linear(x, weight_, bias_); }

}  // namespace mezzo::nn
