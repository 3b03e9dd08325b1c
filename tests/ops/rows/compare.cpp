// Rows of the ops in tensor/ops/elementwise/compare.h.
#include "elementwise.h"

using namespace rows;
using namespace mezzo;

namespace {

const Operand kBits{.low = 0, .high = 7, .integers = true};
const Operand kFew{.low = 0, .high = 2, .integers = true};

/** The case of a function that has no gradient. */
Case truth(double (*f)(double, double), std::vector<Operand> operands) {
  return {.oracle = elementwise(f), .operands = std::move(operands), .gradients = false};
}
Case truth(double (*f)(double), Operand operand = {}) {
  return {.oracle = elementwise(f), .operands = {std::move(operand)}, .gradients = false};
}

/** The case of a test of quotients, some of which are infinite or nan. */
Case of_quotient(Tensor (*call)(const Tensors& x), double (*f)(double)) {
  Case c = truth(f);
  c.call = [call](const Tensors& x) { return Tensors{call(x)}; };
  return c;
}

/** The golden cases of comparisons and of functions of bits. */
Golden special_golden(const std::string& op) {
  return {"", "torch." + op,
          "given([1., 2., 3., NAN, INF, 0.]), given([1., 3., 2., NAN, INF, -0.])"};
}
Golden small_integer_golden(const std::string& op) {
  return {"integers", "torch." + op, "whole(9, high=3), whole(9, high=3)"};
}
Golden logical(const std::string& op) {
  return {"", "torch." + op, "given([0., 1., 0., 2., NAN]), given([0., 0., 3., 4., 1.])"};
}
Golden bits(const std::string& op) {
  return {"", "torch." + op, "whole(9, low=-20, high=20), whole(9, low=-20, high=20)"};
}
Golden bools(const std::string& op) { return {"bool", "torch." + op, "mask(9), mask(9)"}; }

double of_bits(int x) { return x; }
int as_bits(double x) { return static_cast<int>(x); }

const Rows compare_rows("pointwise", [] {
  BINARY(bitwise_and)
      .test(truth([](double a, double b) { return of_bits(as_bits(a) & as_bits(b)); },
                  {kBits, kBits}))
      .golden(bits("bitwise_and"))
      .golden(bools("bitwise_and"));
  BINARY(bitwise_or)
      .test(truth([](double a, double b) { return of_bits(as_bits(a) | as_bits(b)); },
                  {kBits, kBits}))
      .golden(bits("bitwise_or"))
      .golden(bools("bitwise_or"));
  BINARY(bitwise_xor)
      .test(truth([](double a, double b) { return of_bits(as_bits(a) ^ as_bits(b)); },
                  {kBits, kBits}))
      .golden(bits("bitwise_xor"))
      .golden(bools("bitwise_xor"));
  UNARY(bitwise_not)
      .test(truth([](double a) { return -a - 1; }, kBits))
      .golden({"", "torch.bitwise_not", "whole(9, low=-20, high=20)"});
  BINARY_BOTH(eq)
      .test(truth([](double a, double b) { return a == b ? 1.0 : 0.0; }, {kFew, kFew}))
      .golden(special_golden("eq"))
      .golden(small_integer_golden("eq"));
  BINARY_BOTH(ge)
      .test(truth([](double a, double b) { return a >= b ? 1.0 : 0.0; }, {kFew, {}}))
      .golden(special_golden("ge"))
      .golden(small_integer_golden("ge"));
  BINARY_BOTH(gt)
      .test(truth([](double a, double b) { return a > b ? 1.0 : 0.0; }, {kFew, {}}))
      .golden(special_golden("gt"))
      .golden(small_integer_golden("gt"));
  BINARY_BOTH(le)
      .test(truth([](double a, double b) { return a <= b ? 1.0 : 0.0; }, {kFew, {}}))
      .golden(special_golden("le"))
      .golden(small_integer_golden("le"));
  BINARY_BOTH(lt)
      .test(truth([](double a, double b) { return a < b ? 1.0 : 0.0; }, {kFew, {}}))
      .golden(special_golden("lt"))
      .golden(small_integer_golden("lt"));
  BINARY_BOTH(ne)
      .test(truth([](double a, double b) { return a != b ? 1.0 : 0.0; }, {kFew, {}}))
      .golden(special_golden("ne"))
      .golden(small_integer_golden("ne"));
  UNARY(isfinite)
      .test(of_quotient([](const Tensors& x) { return isfinite(1 / floor(x[0])); },
                        [](double a) { return std::isfinite(1 / std::floor(a)) ? 1.0 : 0.0; }))
      .golden({"", "torch.isfinite", "given([0., 1., INF, -INF, NAN])"});
  UNARY(isinf)
      .test(of_quotient([](const Tensors& x) { return isinf(1 / floor(x[0])); },
                        [](double a) { return std::isinf(1 / std::floor(a)) ? 1.0 : 0.0; }))
      .golden({"", "torch.isinf", "given([0., 1., INF, -INF, NAN])"});
  UNARY(isnan)
      .test(of_quotient([](const Tensors& x) { return isnan(1 / floor(x[0])); },
                        [](double a) { return std::isnan(1 / std::floor(a)) ? 1.0 : 0.0; }))
      .golden({"", "torch.isnan", "given([0., 1., INF, -INF, NAN])"});
  BINARY(logical_and)
      .test(truth([](double a, double b) { return a != 0 && b != 0 ? 1.0 : 0.0; }, {kFew, kFew}))
      .golden(logical("logical_and"));
  BINARY(logical_or)
      .test(truth([](double a, double b) { return a != 0 || b != 0 ? 1.0 : 0.0; }, {kFew, kFew}))
      .golden(logical("logical_or"));
  BINARY(logical_xor)
      .test(
          truth([](double a, double b) { return (a != 0) != (b != 0) ? 1.0 : 0.0; }, {kFew, kFew}))
      .golden(logical("logical_xor"));
  UNARY(logical_not)
      .test(truth([](double a) { return a == 0 ? 1.0 : 0.0; }, kFew))
      .golden({"", "torch.logical_not", "given([0., 1., NAN, -0.])"});
});

}  // namespace
