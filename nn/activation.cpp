#include "activation.h"

#include "../tensor/ops/elementwise/compare.h"
#include "../tensor/ops/elementwise/operators.h"
#include "../tensor/ops/elementwise/prelu.h"
#include "../tensor/ops/elementwise/selection.h"
#include "../tensor/ops/norm/softmax.h"
#include "../tensor/ops/random/random.h"
#include "../tensor/ops/require.h"
#include "../tensor/text/text.h"
#include "arguments.h"

namespace mezzo::nn {

#define MZ_ACTIVATION(Layer, function) \
  Tensor Layer::forward(const Tensor& x) const { return function(x); }
MZ_ACTIVATION(Hardsigmoid, hardsigmoid)
MZ_ACTIVATION(Hardswish, hardswish)
MZ_ACTIVATION(LogSigmoid, logsigmoid)
MZ_ACTIVATION(Mish, mish)
MZ_ACTIVATION(ReLU, relu)
MZ_ACTIVATION(ReLU6, relu6)
MZ_ACTIVATION(SELU, selu)
MZ_ACTIVATION(Sigmoid, sigmoid)
MZ_ACTIVATION(SiLU, silu)
MZ_ACTIVATION(Softsign, softsign)
MZ_ACTIVATION(Tanh, mezzo::tanh)
MZ_ACTIVATION(Tanhshrink, tanhshrink)
#undef MZ_ACTIVATION

#define MZ_ACTIVATION(Layer, text, call) \
  Constructed Layer::construct() {       \
    set_summary(text);                   \
    return {};                           \
  }                                      \
  Tensor Layer::forward(const Tensor& x) const { return call; }
MZ_ACTIVATION(CELU, str("alpha ", alpha), celu(x, {alpha}))
MZ_ACTIVATION(ELU, str("alpha ", alpha), elu(x, {alpha}))
MZ_ACTIVATION(GELU, approximate == GeluApproximation::tanh ? "tanh" : "", gelu(x, {approximate}))
MZ_ACTIVATION(GLU, str("dim ", dim), glu(x, {dim}))
MZ_ACTIVATION(Hardshrink, str("lambda ", lambda), hardshrink(x, {lambda}))
MZ_ACTIVATION(Hardtanh, str(min, ", ", max), hardtanh(x, {min, max}))
MZ_ACTIVATION(LeakyReLU, str("slope ", negative_slope), leaky_relu(x, {negative_slope}))
MZ_ACTIVATION(Softplus, str("beta ", beta, ", threshold ", threshold),
              softplus(x, {beta, threshold}))
MZ_ACTIVATION(Softshrink, str("lambda ", lambda), softshrink(x, {lambda}))
#undef MZ_ACTIVATION

#define MZ_ACTIVATION(Layer, function)                                          \
  Layer::Layer(std::int64_t dim) : dim_(dim) { set_summary(str("dim ", dim)); } \
  Tensor Layer::forward(const Tensor& x) const { return function(x, dim_); }
MZ_ACTIVATION(LogSoftmax, log_softmax)
MZ_ACTIVATION(Softmax, softmax)
MZ_ACTIVATION(Softmin, softmin)
#undef MZ_ACTIVATION

Constructed PReLU::construct() {
  detail::require_at_least(1, "PReLU", "num_parameters", num_parameters);
  add_parameter("weight", full({num_parameters}, init));
  set_summary(str(num_parameters));
  return {};
}

Tensor PReLU::forward(const Tensor& x) const { return prelu(x, weight()); }

Constructed RReLU::construct() {
  if (!(lower <= upper))
    fail<ValueError>("RReLU", {.what = "bounds out of order",
                               .got = str("lower ", lower, ", upper ", upper),
                               .expected = "lower <= upper"});
  set_summary(str(lower, ", ", upper));
  set_uses_mode();
  return {};
}

Tensor RReLU::forward(const Tensor& x) const {
  if (!training()) return leaky_relu(x, {.negative_slope = (lower + upper) / 2});
  require_floating_operands("RReLU", {&x, 1});
  const Tensor slopes = empty_like(x);
  uniform_(slopes, lower, upper);
  return where(ge(x, 0.0), x, x * slopes);
}

Tensor Softmax2d::forward(const Tensor& x) const {
  require_defined("Softmax2d", x);
  if (x.dim() != 3 && x.dim() != 4)
    fail<ShapeError>("Softmax2d", {.what = "expected an image or a batch of images",
                                   .got = str(x),
                                   .expected = "[N, C, H, W] or [C, H, W]"});
  return softmax(x, -3);
}

Threshold::Threshold(double threshold, double value) : threshold_(threshold), value_(value) {
  set_summary(str(threshold, ", ", value));
}

Tensor Threshold::forward(const Tensor& x) const { return mezzo::threshold(x, threshold_, value_); }

}  // namespace mezzo::nn
