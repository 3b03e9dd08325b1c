#include "activation.h"

#include "../../tensor/core/elementwise.h"
#include "../../tensor/core/elementwise_info.h"
#include "../../tensor/ops/glu.h"
#include "../../tensor/ops/prelu.h"
#include "common_dtype.h"

namespace mezzo {

namespace {

op::Gelu::Form form(const GeluOptions& options) {
  return options.approximate == GeluApproximation::tanh ? op::Gelu::Form::tanh
                                                        : op::Gelu::Form::exact;
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
Tensor glu(const Tensor& x, const GluOptions& options) {
  return apply_with<op::Glu>({options.dim}, x);
}
Tensor hardshrink(const Tensor& x, const ShrinkOptions& options) {
  return apply_with<op::Hardshrink>({in_dtype_of(x, options.lambda)}, x);
}
Tensor hardsigmoid(const Tensor& x) { return apply<op::Hardsigmoid>(x); }
Tensor hardswish(const Tensor& x) { return apply<op::Hardswish>(x); }
Tensor hardtanh(const Tensor& x, const HardtanhOptions& options) {
  return apply_with<op::Hardtanh>({options.min, options.max}, x);
}
Tensor leaky_relu(const Tensor& x, const LeakyReluOptions& options) {
  return apply_with<op::LeakyRelu>({options.negative_slope}, x);
}
Tensor logsigmoid(const Tensor& x) { return apply<op::Logsigmoid>(x); }
Tensor mish(const Tensor& x) { return apply<op::Mish>(x); }
Tensor prelu(const Tensor& x, const Tensor& weight) { return apply<op::Prelu>(x, weight); }
Tensor relu(const Tensor& x) { return apply<op::Relu>(x); }
Tensor relu6(const Tensor& x) { return apply<op::Relu6>(x); }
Tensor selu(const Tensor& x) { return apply<op::Selu>(x); }
Tensor sigmoid(const Tensor& x) { return apply<op::Sigmoid>(x); }
Tensor silu(const Tensor& x) { return apply<op::Silu>(x); }
Tensor softplus(const Tensor& x, const SoftplusOptions& options) {
  return apply_with<op::Softplus>({options.beta, options.threshold}, x);
}
Tensor softshrink(const Tensor& x, const ShrinkOptions& options) {
  return apply_with<op::Softshrink>({options.lambda}, x);
}
Tensor softsign(const Tensor& x) { return apply<op::Softsign>(x); }
Tensor tanh(const Tensor& x) { return apply<op::Tanh>(x); }
Tensor tanhshrink(const Tensor& x) { return apply<op::Tanhshrink>(x); }
Tensor threshold(const Tensor& x, double threshold, double value) {
  return apply_with<op::Threshold>({threshold, value}, x);
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
const Tensor& hardsigmoid_(const Tensor& self) { return apply_in_place<op::Hardsigmoid>({}, self); }
const Tensor& hardswish_(const Tensor& self) { return apply_in_place<op::Hardswish>({}, self); }
const Tensor& hardtanh_(const Tensor& self, const HardtanhOptions& options) {
  return apply_in_place<op::Hardtanh>({options.min, options.max}, self);
}
const Tensor& leaky_relu_(const Tensor& self, const LeakyReluOptions& options) {
  return apply_in_place<op::LeakyRelu>({options.negative_slope}, self);
}
const Tensor& logsigmoid_(const Tensor& self) { return apply_in_place<op::Logsigmoid>({}, self); }
const Tensor& mish_(const Tensor& self) { return apply_in_place<op::Mish>({}, self); }
const Tensor& relu_(const Tensor& self) { return apply_in_place<op::Relu>({}, self); }
const Tensor& relu6_(const Tensor& self) { return apply_in_place<op::Relu6>({}, self); }
const Tensor& selu_(const Tensor& self) { return apply_in_place<op::Selu>({}, self); }
const Tensor& sigmoid_(const Tensor& self) { return apply_in_place<op::Sigmoid>({}, self); }
const Tensor& silu_(const Tensor& self) { return apply_in_place<op::Silu>({}, self); }
const Tensor& softshrink_(const Tensor& self, const ShrinkOptions& options) {
  return apply_in_place<op::Softshrink>({options.lambda}, self);
}
const Tensor& softsign_(const Tensor& self) { return apply_in_place<op::Softsign>({}, self); }
const Tensor& tanh_(const Tensor& self) { return apply_in_place<op::Tanh>({}, self); }
const Tensor& tanhshrink_(const Tensor& self) { return apply_in_place<op::Tanhshrink>({}, self); }
const Tensor& threshold_(const Tensor& self, double threshold, double value) {
  return apply_in_place<op::Threshold>({threshold, value}, self);
}

}  // namespace mezzo
