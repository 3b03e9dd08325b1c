// Golden calls: elementwise functions, activations, arithmetic, comparison, selection.
#include "golden.h"

namespace {

using namespace golden;
using namespace mezzo;

#define GOLDEN_UNARY(op) \
  GOLDEN(#op, op(x[0])); \
  GOLDEN_IN_PLACE(#op "/in place", op##_(self))
#define GOLDEN_EDGES(op) GOLDEN(#op "/edges", op(x[0]))

void add_functions() {
  GOLDEN_UNARY(abs);
  GOLDEN_UNARY(acos);
  GOLDEN("acosh", acosh(x[0]));
  GOLDEN_UNARY(asin);
  GOLDEN("asinh", asinh(x[0]));
  GOLDEN_UNARY(atan);
  GOLDEN("atanh", atanh(x[0]));
  GOLDEN_UNARY(ceil);
  GOLDEN_UNARY(cos);
  GOLDEN_UNARY(cosh);
  GOLDEN_UNARY(erf);
  GOLDEN_UNARY(erfc);
  GOLDEN_UNARY(erfinv);
  GOLDEN_UNARY(exp);
  GOLDEN_UNARY(exp2);
  GOLDEN_UNARY(expm1);
  GOLDEN_UNARY(floor);
  GOLDEN_UNARY(frac);
  GOLDEN_UNARY(log);
  GOLDEN_UNARY(log10);
  GOLDEN_UNARY(log1p);
  GOLDEN_UNARY(log2);
  GOLDEN_UNARY(logit);
  GOLDEN_UNARY(neg);
  GOLDEN_UNARY(reciprocal);
  GOLDEN_UNARY(relu);
  GOLDEN_UNARY(round);
  GOLDEN_UNARY(rsqrt);
  GOLDEN_UNARY(sigmoid);
  GOLDEN_UNARY(sign);
  GOLDEN_UNARY(sin);
  GOLDEN_UNARY(sinh);
  GOLDEN_UNARY(sqrt);
  GOLDEN_UNARY(square);
  GOLDEN_UNARY(tan);
  GOLDEN_UNARY(tanh);
  GOLDEN_UNARY(trunc);
  GOLDEN("logit/limited", logit(x[0], 0.25));
  GOLDEN("round/halves", round(x[0]));
}

void add_edges() {
  GOLDEN_EDGES(abs);
  GOLDEN_EDGES(asinh);
  GOLDEN_EDGES(atan);
  GOLDEN_EDGES(ceil);
  GOLDEN_EDGES(erf);
  GOLDEN_EDGES(erfc);
  GOLDEN_EDGES(exp);
  GOLDEN_EDGES(exp2);
  GOLDEN_EDGES(expm1);
  GOLDEN_EDGES(floor);
  GOLDEN_EDGES(log);
  GOLDEN_EDGES(log1p);
  GOLDEN_EDGES(reciprocal);
  GOLDEN_EDGES(round);
  GOLDEN_EDGES(rsqrt);
  GOLDEN_EDGES(sigmoid);
  GOLDEN_EDGES(sign);
  GOLDEN_EDGES(sqrt);
  GOLDEN_EDGES(tanh);
  GOLDEN_EDGES(trunc);
}

void add_activations() {
  GOLDEN("celu", celu(x[0]));
  GOLDEN("celu/alpha", celu(x[0], {.alpha = 0.5}));
  GOLDEN("dropout/outside training", dropout(x[0], {.training = false}));
  GOLDEN("elu", elu(x[0]));
  GOLDEN("elu/alpha", elu(x[0], {.alpha = 0.5}));
  GOLDEN("gelu", gelu(x[0]));
  GOLDEN("gelu/tanh", gelu(x[0], {.approximate = GeluApproximation::tanh}));
  GOLDEN("glu", glu(x[0]));
  GOLDEN("glu/first dimension", glu(x[0], {.dim = 0}));
  GOLDEN("hardshrink", hardshrink(x[0]));
  GOLDEN("hardshrink/lambda", hardshrink(x[0], {.lambda = 1}));
  GOLDEN_WITHIN("hardsigmoid", 1e4, hardsigmoid(x[0]));  // PyTorch rounds 1/6 to f32 even in f64
  GOLDEN("hardswish", hardswish(x[0]));
  GOLDEN("hardtanh", hardtanh(x[0]));
  GOLDEN("hardtanh/bounds", hardtanh(x[0], {.min = -0.5, .max = 1.5}));
  GOLDEN("leaky_relu", leaky_relu(x[0]));
  GOLDEN("leaky_relu/slope", leaky_relu(x[0], {.negative_slope = 0.2}));
  GOLDEN("logsigmoid", logsigmoid(x[0]));
  GOLDEN("mish", mish(x[0]));
  GOLDEN("prelu", prelu(x[0], x[1]));
  GOLDEN("prelu/one slope", prelu(x[0], x[1]));
  GOLDEN("relu6", relu6(x[0]));
  GOLDEN("selu", selu(x[0]));
  GOLDEN("silu", silu(x[0]));
  GOLDEN("softplus", softplus(x[0]));
  GOLDEN("softplus/options", softplus(x[0], {.beta = 2, .threshold = 1}));
  GOLDEN("softshrink", softshrink(x[0]));
  GOLDEN("softshrink/lambda", softshrink(x[0], {.lambda = 1}));
  GOLDEN("softsign", softsign(x[0]));
  GOLDEN("tanhshrink", tanhshrink(x[0]));
  GOLDEN("threshold", threshold(x[0], 0.5, -3));
}

#define GOLDEN_BINARY(op)                   \
  GOLDEN(#op, op(x[0], x[1]));              \
  GOLDEN(#op "/broadcast", op(x[0], x[1])); \
  GOLDEN(#op "/integers", op(x[0], x[1]))
#define GOLDEN_BINARY_IN_PLACE(op) \
  GOLDEN_BINARY(op);               \
  GOLDEN_IN_PLACE(#op "/in place", op##_(self, x[1]))

void add_arithmetic() {
  GOLDEN("logaddexp", logaddexp(x[0], x[1]));
  GOLDEN("logaddexp/broadcast", logaddexp(x[0], x[1]));
  GOLDEN("nan_to_num", nan_to_num(x[0]));
  GOLDEN("nan_to_num/numbers", nan_to_num(x[0], {.nan = 1.5, .posinf = 7, .neginf = -9}));
  GOLDEN_BINARY_IN_PLACE(add);
  GOLDEN_BINARY_IN_PLACE(sub);
  GOLDEN_BINARY_IN_PLACE(mul);
  GOLDEN_BINARY_IN_PLACE(div);
  GOLDEN_BINARY_IN_PLACE(fmod);
  GOLDEN_BINARY_IN_PLACE(remainder);
  GOLDEN_BINARY_IN_PLACE(atan2);
  GOLDEN_BINARY(maximum);
  GOLDEN_BINARY(minimum);
  GOLDEN("add/alpha", add(x[0], x[1], {.alpha = 0.3}));
  GOLDEN("sub/alpha", sub(x[0], x[1], {.alpha = -2}));
  GOLDEN("rsub", rsub(x[0], x[1]));
  GOLDEN("rsub/alpha", rsub(x[0], x[1], {.alpha = 0.5}));
  GOLDEN("div/floor", div(x[0], x[1], {.rounding = Rounding::floor}));
  GOLDEN("trunc_divide", div(x[0], x[1], {.rounding = Rounding::trunc}));
  GOLDEN("floor_divide", floor_divide(x[0], x[1]));
  GOLDEN("floor_divide/integers", floor_divide(x[0], x[1]));
  GOLDEN("lerp", lerp(x[0], x[1], x[2]));
  GOLDEN("lerp/number", lerp(x[0], x[1], 0.75));
  GOLDEN("addcmul", addcmul(x[0], x[1], x[2], {.value = 0.5}));
  GOLDEN("addcdiv", addcdiv(x[0], x[1], x[2], {.value = -2}));
  GOLDEN_IN_PLACE("addcmul/in place", addcmul_(self, x[1], x[2]));
  GOLDEN_IN_PLACE("addcdiv/in place", addcdiv_(self, x[1], x[2]));
  GOLDEN("pow", pow(x[0], x[1]));
  GOLDEN("pow/square", pow(x[0], 2));
  GOLDEN("pow/root", pow(x[0], 0.5));
  GOLDEN("pow/number", pow(x[0], -1.7));
  GOLDEN("pow/of a number", pow(2.5, x[0]));
  GOLDEN("pow/integers", pow(x[0], x[1]));
  GOLDEN("pow/edges", pow(x[0], x[1]));
  GOLDEN("rdiv", 3 / x[0]);
}

#define GOLDEN_COMPARISON(op)  \
  GOLDEN(#op, op(x[0], x[1])); \
  GOLDEN(#op "/integers", op(x[0], x[1]))
#define GOLDEN_BITS(op)        \
  GOLDEN(#op, op(x[0], x[1])); \
  GOLDEN(#op "/bool", op(x[0], x[1]))

void add_selection() {
  GOLDEN("clamp", clamp(x[0], {.min = -0.5, .max = 1}));
  GOLDEN("clamp/above", clamp(x[0], {.max = 0.3}));
  GOLDEN("clamp/tensors", clamp(x[0], x[1], x[2]));
  GOLDEN("masked_fill", masked_fill(x[0], x[1], 1.5));
  GOLDEN("masked_fill/tensor", masked_fill(x[0], x[1], x[2]));
  GOLDEN("where", where(x[0], x[1], x[2]));
  GOLDEN_COMPARISON(eq);
  GOLDEN_COMPARISON(ne);
  GOLDEN_COMPARISON(lt);
  GOLDEN_COMPARISON(le);
  GOLDEN_COMPARISON(gt);
  GOLDEN_COMPARISON(ge);
  GOLDEN("logical_and", logical_and(x[0], x[1]));
  GOLDEN("logical_or", logical_or(x[0], x[1]));
  GOLDEN("logical_xor", logical_xor(x[0], x[1]));
  GOLDEN("logical_not", logical_not(x[0]));
  GOLDEN_BITS(bitwise_and);
  GOLDEN_BITS(bitwise_or);
  GOLDEN_BITS(bitwise_xor);
  GOLDEN("bitwise_not", bitwise_not(x[0]));
  GOLDEN("isnan", isnan(x[0]));
  GOLDEN("isinf", isinf(x[0]));
  GOLDEN("isfinite", isfinite(x[0]));
}

const Registrar additions([] {
  add_functions();
  add_edges();
  add_activations();
  add_arithmetic();
  add_selection();
});

}  // namespace
