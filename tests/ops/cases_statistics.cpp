// Cases of variance, norms, products, log-sum-exp and the cumulative sums and products.
#include <algorithm>
#include <limits>

#include "reduce_oracle.h"

using namespace cases;
using namespace mezzo;

namespace {

using Values = std::vector<std::vector<Shape>>;

/** Adds the op for several choices of dimensions. `call` gets operand 0 and the dimensions. */
template <class Call>
void add_reduction(const std::string& op, const std::string& variant, Call call,
                   std::function<double(const Line&)> f, const Operand& operand,
                   const Values& shapes, double factor = 4) {
  for (const std::vector<int>& dims : std::vector<std::vector<int>>{{2}, {1}, {0}, {0, 2}}) {
    Case c;
    c.op = op;
    c.variant = variant;
    for (const int d : dims) c.variant += " " + std::to_string(d);
    const std::vector<std::int64_t> list(dims.begin(), dims.end());
    c.call = [=](const std::vector<Tensor>& x) {
      return std::vector<Tensor>{call(x[0], Dims(list))};
    };
    c.oracle = reduced_by(dims, false, f);
    c.operands = {operand};
    c.shapes = shapes;
    c.factor = factor;
    add_case(c);
  }
  Case all;
  all.op = op;
  all.variant = variant + " all";
  all.call = [=](const std::vector<Tensor>& x) { return std::vector<Tensor>{call(x[0], Dims{})}; };
  all.oracle = reduced_by({}, false, f);
  all.operands = {operand};
  all.shapes = {{{5}}, {{3, 4}}};
  all.factor = factor;
  add_case(all);
}

double variance(const Line& x, double correction) {
  double mean = 0, squares = 0;
  for (const double v : x) mean += v / static_cast<double>(x.size());
  for (const double v : x) squares += (v - mean) * (v - mean);
  return squares / std::max(0.0, static_cast<double>(x.size()) - correction);
}

double log_sum_exp(const Line& x) {
  double sum = 0;
  for (const double v : x) sum += std::exp(v);
  return std::log(sum);
}

double product(const Line& x) {
  double y = 1;
  for (const double v : x) y *= v;
  return y;
}

Line running(const Line& x, bool multiply) {
  Line y;
  double total = multiply ? 1 : 0;
  for (const double v : x) y.push_back(total = multiply ? total * v : total + v);
  return y;
}

const Registrar additions([] {
  const Values shapes{{{2, 3, 4}}, {{3, 5, 2}}, {{0, 3, 2}}, {{2, 17, 5}}, {{2, 3, 70}}};
  for (const double correction : {0.0, 1.0, 0.5})
    for (const bool root : {false, true})
      add_reduction(
          root ? "std" : "var", "correction " + std::to_string(correction),
          [=](const Tensor& x, const Dims& d) {
            return root ? mezzo::std(x, d, {.correction = correction})
                        : var(x, d, {.correction = correction});
          },
          [=](const Line& x) {
            return root ? std::sqrt(variance(x, correction)) : variance(x, correction);
          },
          {}, {{{2, 3, 4}}, {{3, 5, 2}}, {{2, 17, 5}}, {{2, 3, 70}}}, 8);

  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const double p : {0.0, 1.0, 2.0, 3.0, 1.5, 0.5, -1.0, kInf, -kInf})
    add_reduction(
        "vector_norm", "p " + std::to_string(p),
        [=](const Tensor& x, const Dims& d) { return vector_norm(x, d, {.p = p}); },
        [=](const Line& x) { return p_norm(x, p); },
        {.low = 0.2, .high = 2, .positive_definite_gap = std::isinf(p)},
        {{{2, 3, 4}}, {{3, 5, 2}}, {{2, 17, 5}}}, 16);
  add_case({.op = "norm",
            .call = CALL(norm(x[0], 1)),
            .oracle = reduced_by({1}, false, [](const Line& x) { return p_norm(x, 2); }),
            .shapes = {{{3, 4}}, {{2, 5}}}});
  add_case({.op = "vector_norm",
            .variant = "both signs",
            .call = CALL(vector_norm(x[0], 1, {.p = 3, .keepdim = true})),
            .oracle = reduced_by({1}, true, [](const Line& x) { return p_norm(x, 3); }),
            .operands = {{.kinks = {0}}},
            .shapes = {{{3, 4}}, {{2, 5}}},
            .factor = 8});

  add_reduction(
      "logsumexp", "", [](const Tensor& x, const Dims& d) { return logsumexp(x, d); }, log_sum_exp,
      {}, shapes);

  for (const std::int64_t dim : {0, 1, -1})
    add_case(
        {.op = "prod",
         .variant = std::to_string(dim),
         .call = [=](const std::vector<Tensor>& x) { return std::vector<Tensor>{prod(x[0], dim)}; },
         .oracle = reduced_by({static_cast<int>(dim)}, false, product),
         .shapes = {{{2, 3, 4}}, {{3, 5, 2}}, {{2, 0, 3}}, {{2, 9, 2}}},
         .factor = 8});
  add_case({.op = "prod",
            .variant = "all",
            .call = CALL(prod(x[0])),
            .oracle = reduced_by({}, false, product),
            .shapes = {{Shape{}}, {{5}}, {{3, 2}}},
            .factor = 8});
  add_case({.op = "prod",
            .variant = "zeros",
            .call = CALL(prod(x[0] * tensor({0, 1, 2, 0, 1, 0, 3, 1}, {4, 2},
                                            {.dtype = x[0].dtype(), .device = x[0].device()}),
                              0)),
            .oracle =
                [](const std::vector<Array>& x) {
                  return std::vector<Array>{{{2}, {0, x[0][1] * 0 * x[0][5] * x[0][7]}}};
                },
            .shapes = {{{4, 2}}},
            .factor = 8});

  for (const int dim : {0, 1, -1}) {
    add_case(
        {.op = "cumsum",
         .variant = std::to_string(dim),
         .call =
             [=](const std::vector<Tensor>& x) { return std::vector<Tensor>{cumsum(x[0], dim)}; },
         .oracle = lines_by({dim}, [](const Line& x) { return running(x, false); }),
         .shapes = {{{2, 3, 4}}, {{3, 5, 2}}, {{0, 3, 2}}, {{2, 17, 5}}}});
    add_case(
        {.op = "cumprod",
         .variant = std::to_string(dim),
         .call =
             [=](const std::vector<Tensor>& x) { return std::vector<Tensor>{cumprod(x[0], dim)}; },
         .oracle = lines_by({dim}, [](const Line& x) { return running(x, true); }),
         .shapes = {{{2, 3, 4}}, {{3, 5, 2}}, {{0, 3, 2}}, {{2, 7, 2}}},
         .factor = 16});
  }
  add_case({.op = "cumprod",
            .variant = "zeros",
            .call = CALL(cumprod(x[0] * tensor({1, 0, 2, 0, 1, 1}, {6},
                                               {.dtype = x[0].dtype(), .device = x[0].device()}),
                                 0)),
            .oracle =
                [](const std::vector<Array>& x) {
                  return std::vector<Array>{{{6}, {x[0][0], 0, 0, 0, 0, 0}}};
                },
            .shapes = {{{6}}},
            .factor = 8});
  add_case({.op = "cumsum",
            .variant = "in place",
            .call = CALL(cumsum_(x[0] * 1, 1)),
            .oracle = lines_by({1}, [](const Line& x) { return running(x, false); }),
            .shapes = {{{2, 3, 4}}},
            .factor = 4});
  add_case({.op = "cumprod",
            .variant = "in place",
            .call = CALL(cumprod_(x[0] * 1, 1)),
            .oracle = lines_by({1}, [](const Line& x) { return running(x, true); }),
            .shapes = {{{2, 3, 4}}},
            .factor = 8});
});

}  // namespace
