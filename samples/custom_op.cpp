// custom_op: defines an op outside the library. One struct gives it a precision tag, kernels for
// every dtype, first and second derivatives and automatic casts. The program checks the op with the
// tests that the library uses for its own ops.
#include <mezzo.h>

#include <cmath>
#include <cstdio>

#include "common/arguments.h"
#include "common/program.h"

using namespace mezzo;

/** The bell function exp(-x^2). Its derivative is -2 x exp(-x^2), so operand and result are saved
 *  for the backward pass. */
struct Bell {
  static constexpr OpTraits traits{.name = "bell",
                                   .precision = Precision::f32,  // exponentials overflow in f16
                                   .summary = "exp(-x^2)",
                                   .needs = {input(0) | output(0)}};
  template <class V> static V forward(const V& x) {
    using std::exp;  // for numbers; tensors use mezzo::exp
    return exp(-x * x);
  }
  template <class V> static V derivative(const V& x, const V& y) { return -2 * x * y; }
};

Tensor bell(const Tensor& x) { return apply<Bell>(x); }

/** Prints the result of a check. Returns 1 for a failure, else 0. */
int failed(const char* what, bool holds) {
  std::printf("%-54s %s\n", what, holds ? "yes" : "NO");
  return holds ? 0 : 1;
}

/** Checks the op. Returns the exit status: 1 if a check fails. */
int check_bell() {
  const auto f = [](const std::vector<Tensor>& x) { return std::vector{bell(x[0])}; };
  const Tensor x = tensor({-1.5, -0.3, 0, 0.8, 2}, {.dtype = f64, .requires_grad = true});
  const Tensor half = x.detach().to(f16);
  int failures = failed("bell(0) is 1", bell(tensor(0.0)).item<double>() == 1);
  failures += failed("the derivative agrees with finite differences", gradcheck(f, {x}).ok);
  failures += failed("and so does the second", gradgradcheck(f, {x}).ok);
  failures += failed("f16 stays f16 without casts", bell(half).dtype() == f16);
  const amp::autocast on;
  failures += failed("and is computed in f32 under autocast, as its tag says",
                     bell(half).dtype() == f32 && equal(bell(half), bell(half.to(f32))));
  return failures > 0 ? 1 : 0;
}

int main(int argc, char** argv) {
  samples::Arguments arguments("custom_op", "Checks an op that is defined outside of the library.");
  if (const auto status = arguments.parse(argc, argv)) return *status;
  return samples::run_program("custom_op", check_bell);
}
