#include "activation.h"

#include "common_dtype.h"
#include "glu.h"
#include "prelu.h"

namespace mezzo {

MZ_ACTIVATIONS(MZ_DEFINE_FUNCTION)

namespace {

op::Gelu::Form form(const GeluOptions& options) {
  return options.approximate == GeluApproximation::tanh ? op::Gelu::Form::tanh
                                                        : op::Gelu::Form::exact;
}

op::Hardtanh::Attrs limits(const Tensor& x, const HardtanhOptions& options) {
  return {in_dtype_of(x, options.min), in_dtype_of(x, options.max)};
}

}  // namespace

Tensor celu(const Tensor& x, const EluOptions& options) {
  return apply_with<op::Celu>({options.alpha}, x);
}
Tensor elu(const Tensor& x, const EluOptions& options) {
  return apply_with<op::Elu>({options.alpha}, x);
}
Tensor gelu(const Tensor& x, const GeluOptions& options) {
  return apply_with<op::Gelu>({form(options)}, x);
}
Tensor hardshrink(const Tensor& x, const ShrinkOptions& options) {
  return apply_with<op::Hardshrink>({in_dtype_of(x, options.lambda)}, x);
}
Tensor hardtanh(const Tensor& x, const HardtanhOptions& options) {
  return apply_with<op::Hardtanh>(limits(x, options), x);
}
Tensor leaky_relu(const Tensor& x, const LeakyReluOptions& options) {
  return apply_with<op::LeakyRelu>({options.negative_slope}, x);
}
Tensor softplus(const Tensor& x, const SoftplusOptions& options) {
  return apply_with<op::Softplus>({options.beta, options.threshold}, x);
}
Tensor softshrink(const Tensor& x, const ShrinkOptions& options) {
  return apply_with<op::Softshrink>({options.lambda}, x);
}
Tensor threshold(const Tensor& x, double threshold, double value) {
  return apply_with<op::Threshold>({threshold, in_dtype_of(x, value)}, x);
}

const Tensor& celu_(const Tensor& self, const EluOptions& options) {
  return apply_in_place<op::Celu>({options.alpha}, self);
}
const Tensor& elu_(const Tensor& self, const EluOptions& options) {
  return apply_in_place<op::Elu>({options.alpha}, self);
}
const Tensor& gelu_(const Tensor& self, const GeluOptions& options) {
  return apply_in_place<op::Gelu>({form(options)}, self);
}
const Tensor& hardshrink_(const Tensor& self, const ShrinkOptions& options) {
  return apply_in_place<op::Hardshrink>({in_dtype_of(self, options.lambda)}, self);
}
const Tensor& hardtanh_(const Tensor& self, const HardtanhOptions& options) {
  return apply_in_place<op::Hardtanh>(limits(self, options), self);
}
const Tensor& leaky_relu_(const Tensor& self, const LeakyReluOptions& options) {
  return apply_in_place<op::LeakyRelu>({options.negative_slope}, self);
}
const Tensor& softshrink_(const Tensor& self, const ShrinkOptions& options) {
  return apply_in_place<op::Softshrink>({options.lambda}, self);
}
const Tensor& threshold_(const Tensor& self, double threshold, double value) {
  return apply_in_place<op::Threshold>({threshold, in_dtype_of(self, value)}, self);
}

}  // namespace mezzo
