#include "activation.h"

#include "../autograd/ops/compare.h"
#include "../autograd/ops/operators.h"
#include "../autograd/ops/random.h"
#include "../autograd/ops/selection.h"
#include "../autograd/ops/softmax.h"
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

namespace {

std::string text_of(const EluOptions& o) { return str("alpha ", o.alpha); }
std::string text_of(const GeluOptions& o) {
  return o.approximate == GeluApproximation::tanh ? "tanh" : "";
}
std::string text_of(const GluOptions& o) { return str("dim ", o.dim); }
std::string text_of(const HardtanhOptions& o) { return str(o.min, ", ", o.max); }
std::string text_of(const LeakyReluOptions& o) { return str("slope ", o.negative_slope); }
std::string text_of(const ShrinkOptions& o) { return str("lambda ", o.lambda); }
std::string text_of(const SoftplusOptions& o) {
  return str("beta ", o.beta, ", threshold ", o.threshold);
}

}  // namespace

#define MZ_ACTIVATION(Layer, Options, function)                                               \
  Layer::Layer(const Options& options) : options_(options) { set_summary(text_of(options)); } \
  Tensor Layer::forward(const Tensor& x) const { return function(x, options_); }
MZ_ACTIVATION(CELU, EluOptions, celu)
MZ_ACTIVATION(ELU, EluOptions, elu)
MZ_ACTIVATION(GELU, GeluOptions, gelu)
MZ_ACTIVATION(GLU, GluOptions, glu)
MZ_ACTIVATION(Hardshrink, ShrinkOptions, hardshrink)
MZ_ACTIVATION(Hardtanh, HardtanhOptions, hardtanh)
MZ_ACTIVATION(LeakyReLU, LeakyReluOptions, leaky_relu)
MZ_ACTIVATION(Softplus, SoftplusOptions, softplus)
MZ_ACTIVATION(Softshrink, ShrinkOptions, softshrink)
#undef MZ_ACTIVATION

#define MZ_ACTIVATION(Layer, function)                                          \
  Layer::Layer(std::int64_t dim) : dim_(dim) { set_summary(str("dim ", dim)); } \
  Tensor Layer::forward(const Tensor& x) const { return function(x, dim_); }
MZ_ACTIVATION(LogSoftmax, log_softmax)
MZ_ACTIVATION(Softmax, softmax)
MZ_ACTIVATION(Softmin, softmin)
#undef MZ_ACTIVATION

PReLU::PReLU(const PReluOptions& options) {
  detail::require_at_least(1, "PReLU", "num_parameters", options.num_parameters);
  weight_ = add_parameter("weight", full({options.num_parameters}, options.init));
  set_summary(str(options.num_parameters));
}

Tensor PReLU::forward(const Tensor& x) const { return prelu(x, weight_); }

RReLU::RReLU(const RReluOptions& options) : options_(options) {
  if (!(options.lower <= options.upper))
    fail<ValueError>("RReLU", {.what = "bounds out of order",
                               .got = str("lower ", options.lower, ", upper ", options.upper),
                               .expected = "lower <= upper"});
  set_summary(str(options.lower, ", ", options.upper));
  set_uses_mode();
}

Tensor RReLU::forward(const Tensor& x) const {
  if (!training()) return leaky_relu(x, {.negative_slope = (options_.lower + options_.upper) / 2});
  require_floating_operands("RReLU", {&x, 1});
  const Tensor slopes = empty_like(x);
  uniform_(slopes, options_.lower, options_.upper);
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
