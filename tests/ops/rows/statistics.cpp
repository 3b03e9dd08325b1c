// Rows of variance, norms, products, log-sum-exp, and the cumulative sums and products.
#include <algorithm>

#include "../../support/values.h"
#include "../reduce_oracle.h"
#include "../row.h"
#include "smoke_lines.h"

using namespace cases;
using namespace rows;
using namespace mezzo;
using testing::kInf;

namespace {

/** Adds cases for several choices of dimensions, and one for all of them. `options` are the call's
 *  arguments behind the dimensions. */
template <class Row, class Options>
void test_line_dims(Row& row, Case rest, const std::function<double(const Line&)>& f,
                    const Options& options) {
  const std::string variant = rest.variant;
  for (const std::vector<int>& dims : std::vector<std::vector<int>>{{2}, {1}, {0}, {0, 2}}) {
    rest.variant = variant;
    for (const int d : dims) rest.variant += " " + std::to_string(d);
    rest.oracle = reduced_by(dims, false, f);
    row.test(rest, std::vector<std::int64_t>(dims.begin(), dims.end()), options);
  }
  rest.variant = variant + " all";
  rest.oracle = reduced_by({}, false, f);
  rest.shapes = {{{5}}, {{3, 4}}};
  row.test(rest, {}, options);
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

double line_product(const Line& x) {
  double y = 1;
  for (const double v : x) y *= v;
  return y;
}

Line running_line(const Line& x, bool multiply) {
  Line y;
  double total = multiply ? 1 : 0;
  for (const double v : x) y.push_back(total = multiply ? total * v : total + v);
  return y;
}

/** Draws dimensions and options, which `draw` gives with whether dimensions are kept. */
template <class Options> auto with_dims(Options (*draw)(FuzzDraw& d)) {
  return [=](FuzzDraw& d, const auto& call) {
    const Tensor x = d.tensor();
    const std::vector<std::int64_t> dims = d.numbers(2, -2, 2);
    const Options options = draw(d);
    return Trial{call({x}, dims, options), gives(reduced(sizes(x), dims, options.keepdim))};
  };
}

NormOptions draw_norm(FuzzDraw& d) { return {.p = d.real(-3, 3), .keepdim = d.flag()}; }

/** Adds the cases and golden cases of var and std. */
template <class Row> Row& test_variance(Row&& row, const std::string& op, bool root) {
  for (const double correction : {0.0, 1.0, 0.5})
    test_line_dims(
        row,
        {.variant = "correction " + std::to_string(correction),
         .shapes = {{{2, 3, 4}}, {{3, 5, 2}}, {{2, 17, 5}}, {{2, 3, 70}}},
         .factor = 8},
        [=](const Line& x) {
          return root ? std::sqrt(variance(x, correction)) : variance(x, correction);
        },
        VarianceOptions{.correction = correction});
  return row
      .fuzz(with_dims(+[](FuzzDraw& d) {
        return VarianceOptions{.correction = d.real(-1, 2), .keepdim = d.flag()};
      }))
      .golden({"", "torch." + op, "real(3, 4)"})
      .golden({"one dimension", "torch." + op + "(x0, 1)", "real(2, 5, 3)"}, 1, {})
      .golden({"biased, keepdim", "torch." + op + "(x0, (0, 1), unbiased=False, keepdim=True)",
               "real(2, 5, 3)"},
              {0, 1}, {.correction = 0, .keepdim = true});
}

const Rows statistics_rows("reduce", [] {
  test_variance(row("var", CALL(var(x[0], dims, o), const Dims& dims, const VarianceOptions& o)),
                "var", false)
      .smoke(smoke_reduction("var of rows", {f32}), 1, {});
  test_variance(
      row("std", CALL(mezzo::std(x[0], dims, o), const Dims& dims, const VarianceOptions& o)),
      "std", true);
  auto norms =
      row("vector_norm", CALL(vector_norm(x[0], dims, o), const Dims& dims, const NormOptions& o))
          .test({.variant = "both signs",
                 .oracle = reduced_by({1}, true, [](const Line& x) { return p_norm(x, 3); }),
                 .operands = {{.kinks = {0}}},
                 .shapes = {{{3, 4}}, {{2, 5}}},
                 .factor = 8},
                1, {.p = 3, .keepdim = true})
          .fuzz(with_dims(draw_norm))
          .golden({"", "torch.linalg.vector_norm", "real(3, 4)"})
          .golden({"p 0", "torch.linalg.vector_norm(x0, 0, 1)", "distinct(3, 5)"}, 1, {.p = 0})
          .golden({"p 0.5", "torch.linalg.vector_norm(x0, 0.5, 1)", "distinct(3, 5)"}, 1,
                  {.p = 0.5})
          .golden({"p 1", "torch.linalg.vector_norm(x0, 1, 1)", "distinct(3, 5)"}, 1, {.p = 1})
          .golden({"p 2", "torch.linalg.vector_norm(x0, 2, 1)", "distinct(3, 5)"}, 1, {.p = 2})
          .golden({"p 3.5", "torch.linalg.vector_norm(x0, 3.5, 1)", "distinct(3, 5)"}, 1,
                  {.p = 3.5})
          .golden({"p inf", "torch.linalg.vector_norm(x0, INF, 1)", "distinct(3, 5)"}, 1,
                  {.p = kInf})
          .golden({"p -inf", "torch.linalg.vector_norm(x0, -INF, 1)", "distinct(3, 5)"}, 1,
                  {.p = -kInf})
          .golden({"of zeros", "torch.linalg.vector_norm(x0, 2, 1)",
                   "given([[0., 0.], [3., 4.]], True)"},
                  1, {});
  for (const double p : {0.0, 1.0, 2.0, 3.0, 1.5, 0.5, -1.0, kInf, -kInf})
    test_line_dims(
        norms,
        {.variant = "p " + std::to_string(p),
         .operands = {{.low = 0.2, .high = 2, .positive_definite_gap = std::isinf(p)}},
         .shapes = {{{2, 3, 4}}, {{3, 5, 2}}, {{2, 17, 5}}},
         .factor = 16},
        [=](const Line& x) { return p_norm(x, p); }, NormOptions{.p = p});
  row("norm", CALL(norm(x[0], dims, o), const Dims& dims, const NormOptions& o))
      .test({.oracle = reduced_by({1}, false, [](const Line& x) { return p_norm(x, 2); }),
             .shapes = {{{3, 4}}, {{2, 5}}}},
            1, {})
      .fuzz(with_dims(draw_norm))
      .golden({"", "torch.norm", "real(3, 4)"})
      .golden({"p 3", "torch.norm(x0, 3, 1, keepdim=True)", "real(3, 4)"}, 1,
              {.p = 3, .keepdim = true})
      .smoke(smoke_reduction("norm of all", {f32}));
  auto exponentials =
      row("logsumexp", CALL(logsumexp(x[0], dims, o), const Dims& dims, const KeepDimOptions& o))
          .fuzz(with_dims(+[](FuzzDraw& d) { return KeepDimOptions{d.flag()}; }))
          .golden({"", "torch.logsumexp(x0, 1)", "real(3, 5)"}, 1, {})
          .golden({"two dimensions", "torch.logsumexp(x0, (0, 2), keepdim=True)", "real(2, 3, 4)"},
                  {0, 2}, {.keepdim = true})
          .golden({"infinities", "torch.logsumexp(x0, 1)",
                   "given([[-INF, -INF], [INF, 1.], [2., -INF]])"},
                  1, {})
          .smoke(smoke_reduction("logsumexp of rows", {f32}), 1, {});
  test_line_dims(
      exponentials,
      {.shapes = {{{2, 3, 4}}, {{3, 5, 2}}, {{0, 3, 2}}, {{2, 17, 5}}, {{2, 3, 70}}}, .factor = 4},
      log_sum_exp, KeepDimOptions{});
});

const Rows prod_rows("reduce", [] {
  auto along_dim =
      row("prod", CALL(prod(x[0], dim), std::int64_t dim))
          .test({.variant = "zeros",
                 .call = CALL(prod(x[0] * tensor({0, 1, 2, 0, 1, 0, 3, 1}, {4, 2},
                                                 {.dtype = x[0].dtype(), .device = x[0].device()}),
                                   0)),
                 .oracle =
                     [](const std::vector<Array>& x) {
                       return std::vector<Array>{{{2}, {0, x[0][1] * 0 * x[0][5] * x[0][7]}}};
                     },
                 .shapes = {{{4, 2}}},
                 .factor = 8})
          .fuzz([](FuzzDraw& d, const auto& call) {
            const Tensor x = d.tensor();
            const std::int64_t dim = d.dim(x.dim());
            return Trial{call({x}, dim), gives(reduced(sizes(x), {dim}, false))};
          })
          .golden({"one dimension", "torch.prod(x0, 1)", "real(2, 3, 4)"}, 1);
  for (const std::int64_t dim : {0, 1, -1})
    along_dim.test({.variant = std::to_string(dim),
                    .oracle = reduced_by({static_cast<int>(dim)}, false, line_product),
                    .shapes = {{{2, 3, 4}}, {{3, 5, 2}}, {{2, 0, 3}}, {{2, 9, 2}}},
                    .factor = 8},
                   dim);
  row("prod", CALL(prod(x[0])))
      .test({.variant = "all",
             .oracle = reduced_by({}, false, line_product),
             .shapes = {{Shape{}}, {{5}}, {{3, 2}}},
             .factor = 8})
      .fuzz([](FuzzDraw& d, const auto& call) { return Trial{call({d.tensor()}), gives(Sizes{})}; })
      .golden({"", "torch.prod", "real(3, 4)"})
      .golden({"one zero", "torch.prod", "given([1., 0., 3., 4.], True)"})
      .golden({"two zeros", "torch.prod", "given([1., 0., 0., 4.], True)"})
      .golden({"integers", "torch.prod", "whole(5, low=1)"});
});

const Rows scan_rows("reduce", [] {
  auto running_sum =
      row("cumsum", CALL(cumsum(x[0], dim), std::int64_t dim))
          .in_place(CALL(cumsum_(x[0], dim), std::int64_t dim))
          .test({.variant = "in place",
                 .call = CALL(cumsum_(x[0] * 1, 1)),
                 .oracle = lines_by({1}, [](const Line& x) { return running_line(x, false); }),
                 .shapes = {{{2, 3, 4}}},
                 .factor = 4})
          .fuzz(along)
          .golden({"", "torch.cumsum(x0, 1)", "real(3, 5)"}, 1)
          .golden({"first dimension", "torch.cumsum(x0, 0)", "real(4, 2, 2)"}, 0)
          .golden({"integers", "torch.cumsum(x0, 0)", "whole(6)"}, 0);
  auto running_product =
      row("cumprod", CALL(cumprod(x[0], dim), std::int64_t dim))
          .in_place(CALL(cumprod_(x[0], dim), std::int64_t dim))
          .test(
              {.variant = "zeros",
               .call = CALL(cumprod(x[0] * tensor({1, 0, 2, 0, 1, 1}, {6},
                                                  {.dtype = x[0].dtype(), .device = x[0].device()}),
                                    0)),
               .oracle =
                   [](const std::vector<Array>& x) {
                     return std::vector<Array>{{{6}, {x[0][0], 0, 0, 0, 0, 0}}};
                   },
               .shapes = {{{6}}},
               .factor = 8})
          .test({.variant = "in place",
                 .call = CALL(cumprod_(x[0] * 1, 1)),
                 .oracle = lines_by({1}, [](const Line& x) { return running_line(x, true); }),
                 .shapes = {{{2, 3, 4}}},
                 .factor = 8})
          .fuzz(along)
          .golden({"", "torch.cumprod(x0, 1)", "real(3, 5)"}, 1)
          .golden({"zeros", "torch.cumprod(x0, 1)",
                   "given([[1., 2., 0., 3., 4.], [0., 2., 0., 1., 5.]], True)"},
                  1);
  auto running_log_sum =
      row("logcumsumexp", CALL(logcumsumexp(x[0], dim), std::int64_t dim))
          .fuzz(along)
          .golden({"", "torch.logcumsumexp(x0, 1)", "real(3, 5)"}, 1)
          .golden(
              {"first dimension", "torch.logcumsumexp(x0, 0)", "real(4, 2, 2, low=-90, high=90)"},
              0)
          .golden({"infinities", "torch.logcumsumexp(x0, 0)",
                   "given([float('-inf'), float('-inf'), 2., 1., float('inf'), 3., "
                   "float('nan'), 1.])"},
                  0);
  for (const int dim : {0, 1, -1})
    running_log_sum.test({.variant = std::to_string(dim),
                          .oracle = lines_by({dim},
                                             [](const Line& x) {
                                               std::vector<double> y;
                                               double sum = 0;
                                               for (const double v : x) {
                                                 sum += std::exp(v);
                                                 y.push_back(std::log(sum));
                                               }
                                               return y;
                                             }),
                          .shapes = {{{2, 3, 4}}, {{3, 5, 2}}, {{0, 3, 2}}, {{2, 17, 5}}}},
                         dim);
  for (const int dim : {0, 1, -1}) {
    running_sum.test(
        {.variant = std::to_string(dim),
         .oracle = lines_by({dim}, [](const Line& x) { return running_line(x, false); }),
         .shapes = {{{2, 3, 4}}, {{3, 5, 2}}, {{0, 3, 2}}, {{2, 17, 5}}}},
        dim);
    running_product.test(
        {.variant = std::to_string(dim),
         .oracle = lines_by({dim}, [](const Line& x) { return running_line(x, true); }),
         .shapes = {{{2, 3, 4}}, {{3, 5, 2}}, {{0, 3, 2}}, {{2, 7, 2}}},
         .factor = 16},
        dim);
  }
  // Operands of one sign, so that sums do not cancel, and integers.
  const auto line_of = [](const std::string& name, smoke::Expected expected, auto operand) {
    Smoke line = smoke_rows(name, {f32}, expected);
    line.operands = [make_rows = line.operands, operand](const Maker& make, DType dtype) {
      return Tensors{operand(make_rows(make, dtype)[0])};
    };
    return line;
  };
  const auto squares = [](const Tensor& x) { return square(x); };
  row("cumsum", CALL(cumsum(x[0], 1))).smoke(line_of("cumsum", smoke::Expected::close, squares));
  row("logcumsumexp", CALL(logcumsumexp(x[0], 1)))
      .smoke(smoke_rows("logcumsumexp", {f32}, smoke::Expected::close));
  Smoke integers = line_of("cumsum of i32, long", smoke::Expected::same,
                           [](const Tensor& x) { return (x * 8.0).to(i32); });
  integers.bytes = [](const Tensors& x) { return 3 * smoke::size_of(x[0]); };  // results are i64
  row("cumsum", CALL(cumsum(x[0].flatten(), 0)))
      .smoke(line_of("cumsum, long", smoke::Expected::close, squares))
      .smoke(integers);
});

}  // namespace
