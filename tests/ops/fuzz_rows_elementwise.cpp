// Rows of the elementwise ops, activations and fills.
#include "fuzz.h"

using namespace fuzz;
using namespace mezzo;

namespace {

using Unary = Tensor (*)(const Tensor&);
using UnaryInPlace = const Tensor& (*)(const Tensor&);
using Binary = Tensor (*)(const Tensor&, const Tensor&);
using BinaryInPlace = const Tensor& (*)(const Tensor&, const Tensor&);

/** Returns an operand that a call may overwrite (not a leaf). */
Tensor target(const Tensor& x) { return x.detach(); }

template <Unary f> Trial unary(Draw& d) {
  const Tensor x = d.maybe_huge();
  return {[=] { return list(f(x)); }, gives(sizes(x))};
}

template <UnaryInPlace f> Trial unary_in_place(Draw& d) {
  const Tensor x = target(d.maybe_huge());
  return {[=] { return list(f(x)); }, gives(sizes(x))};
}

template <Binary f> Trial binary(Draw& d) {
  const Tensor a = d.maybe_huge(),
               b = d.tensor(d.like(a.shape()), d.flag() ? a.dtype() : d.dtype());
  return {[=] { return list(f(a, b)); }, gives(broadcast(sizes(a), sizes(b)))};
}

/** Expects a result of the target's shape, or an error. */
Expected fits(const std::optional<Sizes>& result, const Tensor& self) {
  return result == sizes(self) ? gives(sizes(self)) : refused();
}

template <BinaryInPlace f> Trial binary_in_place(Draw& d) {
  const Tensor a = target(d.maybe_huge()), b = d.tensor(d.like(a.shape()), a.dtype());
  return {[=] { return list(f(a, b)); }, fits(broadcast(sizes(a), sizes(b)), a)};
}

#define UNARY(name) add_row(#name, unary<mezzo::name>)
#define UNARY_BOTH(name) \
  UNARY(name);           \
  add_row(#name, unary_in_place<mezzo::name##_>)
#define BINARY(name) add_row(#name, binary<mezzo::name>)
#define BINARY_BOTH(name) \
  BINARY(name);           \
  add_row(#name, binary_in_place<mezzo::name##_>)

/** Adds rows of expressions of x that keep its shape, with one or two numbers r and s. */
#define WITH_REALS(name, low, high, expression)                                     \
  add_row(name, [](Draw& d) {                                                       \
    const Tensor x = d.maybe_huge();                                                \
    const double r = d.real(low, high), s = d.real(low, high);                      \
    return Trial{[=] { return (void)(r + s), list(expression); }, gives(sizes(x))}; \
  })
#define IN_PLACE_WITH_REALS(name, low, high, expression)                            \
  add_row(name, [](Draw& d) {                                                       \
    const Tensor x = target(d.maybe_huge());                                        \
    const double r = d.real(low, high), s = d.real(low, high);                      \
    return Trial{[=] { return (void)(r + s), list(expression); }, gives(sizes(x))}; \
  })

const Rows unary_rows([] {
  UNARY_BOTH(abs);
  UNARY_BOTH(acos);
  UNARY_BOTH(acosh);
  UNARY_BOTH(asin);
  UNARY_BOTH(asinh);
  UNARY_BOTH(atan);
  UNARY_BOTH(atanh);
  UNARY(bitwise_not);
  UNARY_BOTH(ceil);
  UNARY_BOTH(cos);
  UNARY_BOTH(cosh);
  UNARY_BOTH(erf);
  UNARY_BOTH(erfc);
  UNARY_BOTH(erfinv);
  UNARY_BOTH(exp);
  UNARY_BOTH(exp2);
  UNARY_BOTH(expm1);
  UNARY_BOTH(floor);
  UNARY_BOTH(frac);
  UNARY_BOTH(hardsigmoid);
  UNARY_BOTH(hardswish);
  UNARY(isfinite);
  UNARY(isinf);
  UNARY(isnan);
  UNARY_BOTH(log);
  UNARY_BOTH(log10);
  UNARY_BOTH(log1p);
  UNARY_BOTH(log2);
  UNARY(logical_not);
  UNARY_BOTH(logit);
  UNARY_BOTH(logsigmoid);
  UNARY_BOTH(mish);
  UNARY_BOTH(neg);
  UNARY_BOTH(reciprocal);
  UNARY_BOTH(relu);
  UNARY_BOTH(relu6);
  UNARY_BOTH(round);
  UNARY_BOTH(rsqrt);
  UNARY_BOTH(selu);
  UNARY_BOTH(sigmoid);
  UNARY_BOTH(sign);
  UNARY_BOTH(silu);
  UNARY_BOTH(sin);
  UNARY_BOTH(sinh);
  UNARY_BOTH(softsign);
  UNARY_BOTH(sqrt);
  UNARY_BOTH(square);
  UNARY_BOTH(tan);
  UNARY_BOTH(tanh);
  UNARY_BOTH(tanhshrink);
  UNARY_BOTH(trunc);
});

const Rows binary_rows([] {
  BINARY_BOTH(atan2);
  BINARY(bitwise_and);
  BINARY(bitwise_or);
  BINARY(bitwise_xor);
  BINARY_BOTH(eq);
  BINARY_BOTH(floor_divide);
  BINARY_BOTH(fmod);
  BINARY_BOTH(ge);
  BINARY_BOTH(gt);
  BINARY_BOTH(le);
  BINARY(logical_and);
  BINARY(logical_or);
  BINARY(logical_xor);
  BINARY_BOTH(lt);
  BINARY(logaddexp);
  BINARY(maximum);
  BINARY(minimum);
  BINARY_BOTH(mul);
  BINARY_BOTH(ne);
  BINARY_BOTH(pow);
  BINARY_BOTH(remainder);
});

Rounding rounding(Draw& d) {
  return d.flag() ? Rounding::none : d.flag() ? Rounding::trunc : Rounding::floor;
}

template <Tensor (*f)(const Tensor&, const Tensor&, const AddOptions&)> Trial sum_of(Draw& d) {
  const Tensor a = d.maybe_huge(), b = d.tensor(d.like(a.shape()), d.dtype());
  const double alpha = d.flag() ? 1 : d.real();
  return {[=] { return list(f(a, b, {.alpha = alpha})); }, gives(broadcast(sizes(a), sizes(b)))};
}

template <Tensor (*f)(const Tensor&, const Tensor&, const Tensor&, const AddcOptions&)>
Trial addc(Draw& d) {
  const Tensor x = d.maybe_huge(), a = d.tensor(d.like(x.shape()), x.dtype()),
               b = d.tensor(d.like(x.shape()), x.dtype());
  const double value = d.real();
  return {[=] { return list(f(x, a, b, {.value = value})); },
          gives(broadcast(broadcast(sizes(x), sizes(a)), sizes(b)))};
}

Trial quotient(Draw& d) {
  const Tensor a = d.maybe_huge(), b = d.tensor(d.like(a.shape()), d.dtype());
  const DivOptions options{rounding(d)};
  return {[=] { return list(div(a, b, options)); }, gives(broadcast(sizes(a), sizes(b)))};
}

Trial quotient_by_number(Draw& d) {
  const Tensor a = d.maybe_huge();
  const DivOptions options{rounding(d)};
  const std::int64_t n = d.number(-3, 3);
  return {[=] { return list(div(a, n, options)); }, gives(sizes(a))};
}

const Rows several_operands([] {
  add_row("add", sum_of<mezzo::add>);
  add_row("addcdiv", addc<mezzo::addcdiv>);
  add_row("addcmul", addc<mezzo::addcmul>);
  add_row("clamp", [](Draw& d) {
    const Tensor x = d.maybe_huge(), low = d.optional(d.like(x.shape()), x.dtype()),
                 high = d.optional(d.like(x.shape()), x.dtype());
    auto shape = std::optional<Sizes>(sizes(x));
    for (const Tensor& limit : {low, high})
      if (limit.defined()) shape = broadcast(shape, sizes(limit));
    return Trial{[=] { return list(clamp(x, low, high)); }, gives(shape)};
  });
  add_row("copy", [](Draw& d) {
    const Tensor to = target(d.maybe_huge()), from = d.tensor(d.like(to.shape()), d.dtype());
    const auto whole = broadcast(sizes(to), sizes(from));
    return Trial{[=] { return list(to.copy_(from)); }, fits(whole, to)};
  });
  add_row("nan_to_num", [](Draw& d) {
    const Tensor x = d.maybe_huge();
    NanToNumOptions options{.nan = d.real()};
    if (d.flag()) options.posinf = d.real();
    return Trial{[=] { return list(nan_to_num(x, options)); }, gives(sizes(x))};
  });
  add_row("nan_to_num", [](Draw& d) {
    const Tensor x = target(d.maybe_huge());
    return Trial{[=] { return list(nan_to_num_(x)); }, gives(sizes(x))};
  });
  add_row("div", quotient);
  add_row("div", quotient_by_number);
  add_row("floor_divide", [](Draw& d) {
    const Tensor a = d.maybe_huge();
    const std::int64_t n = d.number(-3, 3);
    return Trial{[=] { return list(floor_divide(a, n)); }, gives(sizes(a))};
  });
  add_row("lerp", [](Draw& d) {
    const Tensor a = d.maybe_huge(), b = d.tensor(d.like(a.shape()), a.dtype()),
                 w = d.tensor(d.like(a.shape()), a.dtype());
    return Trial{[=] { return list(lerp(a, b, w)); },
                 gives(broadcast(broadcast(sizes(a), sizes(b)), sizes(w)))};
  });
  add_row("masked_fill", [](Draw& d) {
    const Tensor x = d.maybe_huge(), m = d.mask(d.like(x.shape()));
    const double value = d.real();
    return Trial{[=] { return list(masked_fill(x, m, value)); },
                 gives(broadcast(sizes(x), sizes(m)))};
  });
  add_row("mul", [](Draw& d) {
    const Tensor x = d.maybe_huge();
    const std::int64_t n = d.number(-3, 3);
    return Trial{[=] { return list(mul(x, n)); }, gives(sizes(x))};
  });
  add_row("pow", [](Draw& d) {
    const Tensor x = d.maybe_huge();
    const std::int64_t n = d.number(-3, 3);
    return Trial{[=] { return list(pow(x, n)); }, gives(sizes(x))};
  });
  add_row("remainder", [](Draw& d) {
    const Tensor x = d.maybe_huge();
    const std::int64_t n = d.number(-3, 3);
    return Trial{[=] { return list(remainder(x, n)); }, gives(sizes(x))};
  });
  add_row("rsub", sum_of<mezzo::rsub>);
  add_row("sub", sum_of<mezzo::sub>);
  add_row("trunc_divide", [](Draw& d) {
    const Tensor a = d.maybe_huge(), b = d.tensor(d.like(a.shape()), d.dtype());
    return Trial{[=] { return list(div(a, b, {.rounding = Rounding::trunc})); },
                 gives(broadcast(sizes(a), sizes(b)))};
  });
  add_row("where", [](Draw& d) {
    const Tensor a = d.maybe_huge(), b = d.tensor(d.like(a.shape()), a.dtype()),
                 m = d.mask(d.like(a.shape()));
    return Trial{[=] { return list(where(m, a, b)); },
                 gives(broadcast(broadcast(sizes(a), sizes(b)), sizes(m)))};
  });
});

const Rows with_numbers([] {
  WITH_REALS("celu", -2, 2, celu(x, {.alpha = r}));
  WITH_REALS("clamp", -2, 2, clamp(x, {.min = r, .max = s}));
  WITH_REALS("elu", -2, 2, elu(x, {.alpha = r}));
  WITH_REALS("gelu", -2, 2, gelu(x, {r < 0 ? GeluApproximation::none : GeluApproximation::tanh}));
  WITH_REALS("hardshrink", -2, 2, hardshrink(x, {.lambda = r}));
  WITH_REALS("hardtanh", -2, 2, hardtanh(x, {.min = r, .max = s}));
  WITH_REALS("leaky_relu", -2, 2, leaky_relu(x, {.negative_slope = r}));
  WITH_REALS("logit", -1, 1, logit(x, r));
  WITH_REALS("rdiv", -2, 2, rdiv(x, r));
  WITH_REALS("softplus", -2, 20, softplus(x, {.beta = r, .threshold = s}));
  WITH_REALS("softshrink", -1, 2, softshrink(x, {.lambda = r}));
  WITH_REALS("threshold", -2, 2, threshold(x, r, s));
  WITH_REALS("dropout", -0.2, 1.2, dropout(x, {.p = r}));
  IN_PLACE_WITH_REALS("celu", -2, 2, celu_(x, {.alpha = r}));
  IN_PLACE_WITH_REALS("clamp", -2, 2, clamp_(x, {.min = r, .max = s}));
  IN_PLACE_WITH_REALS("elu", -2, 2, elu_(x, {.alpha = r}));
  IN_PLACE_WITH_REALS("gelu", -2, 2, gelu_(x));
  IN_PLACE_WITH_REALS("hardtanh", -2, 2, hardtanh_(x, {.min = r, .max = s}));
  IN_PLACE_WITH_REALS("leaky_relu", -2, 2, leaky_relu_(x, {.negative_slope = r}));
  IN_PLACE_WITH_REALS("bernoulli", -0.2, 1.2, bernoulli_(x, r));
  IN_PLACE_WITH_REALS("fill", -2, 2, x.fill_(r));
  IN_PLACE_WITH_REALS("normal", -2, 2, normal_(x, r, s));
  IN_PLACE_WITH_REALS("uniform", -2, 2, uniform_(x, r, s));
  IN_PLACE_WITH_REALS("dropout", -0.2, 1.2, dropout_(x, {.p = r}));
  add_row("randint", [](Draw& d) {
    const Tensor x = target(d.tensor());
    const std::int64_t low = d.number(-2, 2), high = d.number(-1, 9);
    return Trial{[=] { return list(randint_(x, low, high)); },
                 low < high ? gives(sizes(x)) : refused()};
  });
  add_row("clone", [](Draw& d) {
    const Tensor x = d.maybe_huge();
    return Trial{[=] { return list(x.clone()); }, gives(sizes(x))};
  });
  add_row("to", [](Draw& d) {
    const Tensor x = d.maybe_huge();
    const DType dtype = d.dtype();
    return Trial{[=] { return list(x.to(dtype)); }, gives(sizes(x))};
  });
});

}  // namespace
