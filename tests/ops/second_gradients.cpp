// Generated test of gradients with a graph, for every elementwise op on every f16 and bf16 value.
#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>

#include "../../tensor/core/elementwise.h"
#include "../../tensor/ops/elementwise/loss_terms.h"
#include "../support/catch.h"
#include "edges.h"
#include "samples.h"

using namespace mezzo;
using cases::test_device;
using edges::made;
using edges::values;

namespace {

/** A differentiable elementwise op with attributes of its own type. */
struct Subject {
  const OpInfo* info;
  std::string label;
  std::function<Tensor(std::vector<Tensor>)> call;
  std::optional<double> last = {};  // the last operand, where the attributes fit one number only
};

template <class Op>
void add_subject(std::vector<Subject>& list, const AttrsOf<Op>& attrs, int form) {
  const OpInfo* op = find_op(Op::traits.name);
  list.push_back({op, str(Op::traits.name, " form ", form), [op, attrs](std::vector<Tensor> x) {
                    Tensor y;
                    run(*op, x, {&y, 1}, &attrs);
                    return y;
                  }});
  constexpr double exponents[] = {0, 0.5, -1, 2, 3};
  if (std::is_same_v<Op, op::Pow> && form > 0) list.back().last = exponents[form];
}

template <class Op> void add_subjects(std::vector<Subject>& list) {
  if constexpr (!Op::traits.differentiable) return;
  if constexpr (requires { Op::forms; }) {
    int number = 0;
    for (const auto form : Op::forms) add_subject<Op>(list, {form}, number++);
  } else {
    add_subject<Op>(list, {}, 0);
  }
}

template <class... Ops> void add_family(std::vector<Subject>& list, type_list<Ops...>) {
  (add_subjects<Ops>(list), ...);
}

const std::vector<Subject>& subjects() {
  static const std::vector<Subject> list = [] {
    std::vector<Subject> all;
    add_family(all, op::ActivationOps{});
    add_family(all, op::ArithmeticOps{});
    add_family(all, op::FunctionOps{});
    add_family(all, op::LossTermOps{});
    add_family(all, op::PowerOps{});
    add_family(all, op::RoundingOps{});
    add_family(all, op::SelectionOps{});
    return all;
  }();
  return list;
}

/** Returns 1 on the CPU (all numbers); on a slow emulated device every 61st number is tested. */
std::int64_t step() { return test_device() == cpu ? 1 : 61; }

/** Returns the number with these bits, exactly. */
double value_of(std::uint16_t bits, DType dtype) {
  return dtype == f16 ? static_cast<float>(Half::from_bits(bits))
                      : static_cast<float>(BFloat16::from_bits(bits));
}

/** Returns every number of the dtype, in a different order for each operand. */
std::vector<double> every_number(DType dtype, int operand) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < 0x10000; i += step())
    values.push_back(
        value_of(static_cast<std::uint16_t>(i * (1 + 12344 * operand) + 77 * operand), dtype));
  return values;
}

/** Returns numbers between -2 and 2 that every dtype represents. */
std::vector<double> moderate_numbers(std::size_t n, int operand) {
  std::vector<double> values;
  for (std::size_t i = 0; i < n; ++i)
    values.push_back(
        static_cast<double>((i * 7919 + static_cast<std::size_t>(operand) * 31) % 129) / 32 - 2);
  return values;
}

/** Returns operands of which `which` runs over every number, or all of them for -1. */
std::vector<Tensor> subject_operands(const Subject& op, DType dtype, int which) {
  const OpInfo& info = *op.info;
  std::vector<Tensor> x;
  for (int k = 0; k < info.traits.inputs; ++k) {
    const bool every = which == k || which < 0;
    std::vector<double> values = every_number(dtype, k);
    if (!every) values = moderate_numbers(values.size(), k);
    if (info.traits.name == "masked_fill" && k == 1) {
      x.push_back(tensor(1.5, {.dtype = dtype, .device = test_device()}));
    } else if (op.last && k == info.traits.inputs - 1) {
      x.push_back(made(std::vector<double>(values.size(), *op.last), dtype));
    } else if (info.traits.is_mask(k)) {
      for (double& v : values) v = v > 0;
      x.push_back(made(values, boolean));
    } else {
      x.push_back(made(values, dtype));
    }
  }
  return x;
}

/** First gradients of the operands by the fused kernel and through a graph, and the gradients of
 *  the latter by the operands and by the incoming gradient. */
struct Gradients {
  Tensor result;
  std::vector<Tensor> fused, graphed;
  std::vector<std::vector<Tensor>> second;
};

Gradients gradients_of(const Subject& op, std::vector<Tensor> x) {
  std::vector<Tensor> wanted;
  for (std::size_t k = 0; k < x.size(); ++k)
    if (is_floating(x[k].dtype()) && !(op.last && k == x.size() - 1))
      wanted.push_back(x[k].requires_grad_());
  const Tensor y = op.call(x);
  const auto n = static_cast<std::size_t>(y.numel());
  const Tensor seed = made(moderate_numbers(n, 5), y.dtype());
  Gradients g;
  g.result = y.detach();
  g.fused = grad({y}, wanted, {.retain_graph = true, .allow_unused = true}, {seed});
  g.graphed = grad({y}, wanted, {.create_graph = true, .allow_unused = true}, {seed});
  // 1 and -1 neither cause nor hide an overflow.
  std::vector<double> signs(n);
  for (std::size_t i = 0; i < n; ++i) signs[i] = i % 2 == 0 ? 1 : -1;
  const Tensor sign = made(signs, y.dtype()).requires_grad_();
  const std::vector<Tensor> again =
      grad({y}, wanted, {.create_graph = true, .allow_unused = true}, {sign});
  wanted.push_back(sign);
  for (const Tensor& first : again) {
    g.second.emplace_back();
    if (first.defined() && first.requires_grad())
      g.second.back() =
          grad({first}, wanted, {.retain_graph = true, .allow_unused = true}, {ones_like(first)});
  }
  return g;
}

/** Returns the distance to the next number of the dtype. */
double ulp(double x, DType dtype) {
  const int digits = dtype == f16 ? 11 : 8, lowest = dtype == f16 ? -24 : -133;
  int exponent = 0;
  std::frexp(x, &exponent);
  return std::ldexp(1.0, std::max(exponent - digits, lowest));
}

bool agree(double a, double b, DType dtype) {
  if (!std::isfinite(a) || !std::isfinite(b)) return a == b || (std::isnan(a) && std::isnan(b));
  return std::abs(a - b) <= ulp(std::max(std::abs(a), std::abs(b)), dtype);
}

/** Describes the first disagreement of the operands' gradients; empty where there is none. */
std::string first_difference(const Gradients& g, const std::vector<Tensor>& x, DType dtype) {
  for (std::size_t k = 0; k < g.fused.size(); ++k) {
    if (!g.fused[k].defined()) continue;
    const std::vector<double> a = values(g.fused[k]), b = values(g.graphed[k]);
    std::size_t count = 0, at = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
      if (!agree(a[i], b[i], dtype) && count++ == 0) at = i;
    if (count == 0) continue;
    std::string where;
    for (const Tensor& t : x)
      where += str(" ", values(t)[at % static_cast<std::size_t>(t.numel())]);
    return str(count, " of gradient ", k, "; at", where, ": ", a[at], " and with a graph ", b[at]);
  }
  return "";
}

/** Returns whether the formulas do not overflow. They run in f32, and bf16 numbers are as large as
 *  f32 ones: sums and products of several such operands overflow where f64 does not. */
bool has_room(const std::vector<Tensor>& x, const std::vector<std::vector<double>>& at,
              std::size_t i, DType dtype) {
  if (dtype == f16 || x.size() == 1) return true;
  return std::all_of(at.begin(), at.end(), [&](const auto& v) {
    return !(std::abs(v[i % v.size()]) > 0x1p122) || std::isinf(v[i % v.size()]);
  });
}

/** Describes where a second gradient is not finite although f64's and the result fit the dtype. */
std::string first_lost(const Gradients& g, const Gradients& wide, const std::vector<Tensor>& x,
                       DType dtype) {
  const double largest = value_of(dtype == f16 ? 0x7bff : 0x7f7f, dtype),
               room = largest * (dtype == f16 ? 0.99 : 1.0 / 64);
  const std::vector<double> y = values(wide.result);
  std::vector<std::vector<double>> operand_values;
  for (const Tensor& t : x) operand_values.push_back(values(t));
  for (std::size_t k = 0; k < g.second.size(); ++k)
    for (std::size_t j = 0; j < g.second[k].size(); ++j) {
      if (!g.second[k][j].defined()) continue;
      const std::vector<double> a = values(g.second[k][j]), b = values(wide.second[k][j]);
      std::size_t count = 0, at = 0;
      for (std::size_t i = 0; i < a.size(); ++i)
        if (!std::isfinite(a[i]) && std::abs(b[i]) <= room && !(std::abs(y[i]) > largest) &&
            has_room(x, operand_values, i, dtype) && count++ == 0)
          at = i;
      if (count == 0) continue;
      std::string where;
      for (const auto& v : operand_values) where += str(" ", v[at % v.size()]);
      return str(count, " of gradient ", j, " of gradient ", k, "; at", where, ": ", a[at],
                 ", in f64 ", b[at]);
    }
  return "";
}

bool has_device_kernels(const Subject& op) {
  const auto kind = static_cast<std::size_t>(test_device().kind);
  return op.info->kernel[kind] && op.info->derivative[kind];
}

}  // namespace

TEST_CASE("the list has all differentiable elementwise ops", "[ops][second]") {
  std::set<std::string_view> names;
  for (const Subject& op : subjects()) names.insert(op.info->traits.name);
  for (const OpInfo* info : all_ops()) {
    INFO(info->traits.name);
    if (info->elementwise && info->traits.differentiable)
      CHECK(names.count(info->traits.name) == 1);
  }
}

TEST_CASE("gradients with a graph match the fused ones, and second gradients are finite",
          "[ops][derivatives][second]") {
  for (const Subject& op : subjects()) {
    if (!has_device_kernels(op)) continue;
    const int last = op.info->traits.inputs == 1 ? 0 : op.info->traits.inputs;
    for (const DType dtype : {f16, bf16})
      for (int k = 0; k <= last; ++k) {
        const int which = k == op.info->traits.inputs ? -1 : k;
        INFO(op.label << " in " << name(dtype) << ", every number in operand " << which);
        const std::vector<Tensor> x = subject_operands(op, dtype, which);
        std::vector<Tensor> wide;
        for (const Tensor& t : x) wide.push_back(is_floating(t.dtype()) ? t.to(f64) : t);
        const Gradients g = gradients_of(op, x);
        CHECK(first_difference(g, x, dtype) == "");
        // Products of two bf16 numbers may overflow f32.
        if (which >= 0 || dtype == f16)
          CHECK(first_lost(g, gradients_of(op, wide), x, dtype) == "");
      }
  }
}

namespace {

/** Returns whether every element of `got` is that of `expected` rounded to got's dtype. */
bool is_rounded_gradient(const Tensor& got, const Tensor& expected) {
  if (!got.defined() || !expected.defined()) return got.defined() == expected.defined();
  const std::vector<double> a = values(got), b = values(expected.detach().to(got.dtype()));
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i] && !(std::isnan(a[i]) && std::isnan(b[i]))) return false;
  return true;
}

}  // namespace

TEST_CASE("gradients of operands of different dtypes equal f32 ones rounded once",
          "[ops][second]") {
  for (const Subject& op : subjects()) {
    if (!has_device_kernels(op) || op.info->traits.precision == Precision::match) continue;
    for (int k = 0; op.info->traits.inputs > 1 && k < op.info->traits.inputs; ++k) {
      INFO(op.label << ", operand " << k << " in f32, others in f16");
      std::vector<Tensor> mixed = subject_operands(op, f16, op.info->traits.inputs), wide;
      if (op.info->traits.is_mask(k)) continue;
      const Tensor fine = mixed[static_cast<std::size_t>(k)].to(f32) * 1.0001;
      mixed[static_cast<std::size_t>(k)] = fine;
      for (const Tensor& t : mixed) wide.push_back(is_floating(t.dtype()) ? t.to(f32).clone() : t);
      const Gradients g = gradients_of(op, mixed), expected = gradients_of(op, wide);
      for (std::size_t i = 0; i < g.graphed.size(); ++i) {
        CHECK(is_rounded_gradient(g.fused[i], expected.fused[i]));
        CHECK(is_rounded_gradient(g.graphed[i], expected.graphed[i]));
        REQUIRE(g.second[i].size() == expected.second[i].size());
        for (std::size_t j = 0; j < g.second[i].size(); ++j)
          CHECK(is_rounded_gradient(g.second[i][j], expected.second[i][j]));
      }
    }
  }
}

TEST_CASE("the second derivative of gelu is accurate in both tails", "[ops][second]") {
  const std::int64_t n = 4001;
  for (const GeluApproximation form : {GeluApproximation::none, GeluApproximation::tanh}) {
    const auto second = [&](DType dtype) {
      const Tensor x = linspace(-12, 12, n).to(dtype).to(test_device()).requires_grad_();
      const Tensor first = grad(sum(gelu(x, {form})), x, {.create_graph = true});
      return values(grad(sum(first), x));
    };
    const std::vector<double> got = second(f32), expected = second(f64);
    const std::vector<double> x = values(linspace(-12, 12, n));
    for (std::size_t i = 0; i < got.size(); ++i) {
      INFO("form " << static_cast<int>(form) << " at " << x[i] << ": " << got[i] << ", in f64 "
                   << expected[i]);
      const double miss = std::abs(got[i] - expected[i]),
                   normal = 0x1p-120;  // leaves room for factors
      CHECK(miss <= 5e-7);
      if (std::abs(x[i]) > 3 && std::abs(expected[i]) > normal)
        CHECK(miss <= 1e-4 * std::abs(expected[i]));
    }
  }
}

TEST_CASE("second gradients of mlp in f16 match f64 up to the roundings of its ops",
          "[ops][second]") {
  manual_seed(1);
  const std::vector<Tensor> drawn{randn({16, 8}), randn({12, 8}) * 0.5, randn({12}),
                                  randn({6, 12}) * 0.3, randn({6})};
  for (const MlpActivation activation : {MlpActivation::gelu, MlpActivation::gelu_tanh}) {
    const auto second = [&](DType dtype) {
      std::vector<Tensor> x;
      for (const Tensor& t : drawn)
        x.push_back(t.to(f16).to(dtype).to(test_device()).requires_grad_());
      const Tensor y = mlp(x[0], {x[1], x[3]}, {x[2], x[4]}, {.activation = activation});
      const Tensor first = grad(sum(y), x[0], {.create_graph = true});
      return grad({sum(square(first))}, x, {.allow_unused = true});
    };
    const std::vector<Tensor> got = second(f16), expected = second(f64);
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (!got[i].defined() || !expected[i].defined()) continue;
      const Tensor e = expected[i], miss = abs(got[i].to(f64) - e);
      const double worst = amax(miss).item<double>(), scale = amax(abs(e)).item<double>();
      INFO("operand " << i << ": error " << worst << " of " << scale);
      CHECK(worst <= 2e-3 * scale);
    }
  }
}
