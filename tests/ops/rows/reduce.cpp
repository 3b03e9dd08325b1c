// Rows of the reductions.
#include <algorithm>

#include "../reduce_oracle.h"
#include "../row.h"
#include "smoke_lines.h"

using namespace cases;
using namespace rows;
using namespace mezzo;

namespace {

/** Adds cases for several choices of dimensions, and one for all of them. */
template <class Row> Row& test_dims(Row&& row, double (*f)(const Line&), const Case& rest = {}) {
  const std::vector<std::vector<int>> choices{{2}, {1}, {0}, {0, 2}, {0, 1}, {-1, -2}};
  for (const std::vector<int>& dims : choices)
    for (const bool keepdim : {false, true}) {
      Case c = rest;
      c.variant = keepdim ? "keepdim" : "";
      for (const int d : dims) c.variant += " " + std::to_string(d);
      c.oracle = reduced_by(dims, keepdim, f);
      if (c.shapes.empty()) c.shapes = reduce_shapes();
      row.test(c, std::vector<std::int64_t>(dims.begin(), dims.end()), {.keepdim = keepdim});
    }
  Case all = rest;
  all.variant = "all";
  all.oracle = reduced_by({}, false, f);
  all.shapes = {{Shape{}}, {{1}}, {{7}}, {{3, 4}}, {{2, 3, 5}}};
  return row.test(all);
}

double total(const Line& x) {
  double sum = 0;
  for (const double v : x) sum += v;
  return sum;
}
double greatest(const Line& x) { return *std::max_element(x.begin(), x.end()); }
double least(const Line& x) { return *std::min_element(x.begin(), x.end()); }
double nonzeros(const Line& x) {
  return static_cast<double>(std::count_if(x.begin(), x.end(), [](double v) { return v != 0; }));
}
double place_of_greatest(const Line& x) {
  return static_cast<double>(std::max_element(x.begin(), x.end()) - x.begin());
}
double place_of_least(const Line& x) {
  return static_cast<double>(std::min_element(x.begin(), x.end()) - x.begin());
}

std::vector<std::vector<Shape>> without_empty(std::vector<std::vector<Shape>> shapes) {
  std::erase_if(shapes, [](const std::vector<Shape>& s) { return s[0][0] == 0; });
  return shapes;
}

/** Results [values, indices] along dimension 1. */
Oracle extreme_and_place(double (*extreme)(const Line&), double (*place)(const Line&)) {
  return [=](const std::vector<Array>& x) {
    return std::vector<Array>{reduced_by({1}, false, extreme)(x)[0],
                              reduced_by({1}, false, place)(x)[0]};
  };
}

/** Draws dimensions and whether they are kept. */
constexpr auto dims_kept = [](FuzzDraw& d, const auto& call) {
  const Tensor x = d.tensor();
  const std::vector<std::int64_t> dims = d.numbers(2, -2, 2);
  const bool keepdim = d.flag();
  return Trial{call({x}, dims, {keepdim}), gives(reduced(sizes(x), dims, keepdim))};
};

/** The same for a reduction that converts its operand first. */
constexpr auto dims_converted = [](FuzzDraw& d, const auto& call) {
  const Tensor x = d.tensor();
  const std::vector<std::int64_t> dims = d.numbers(2, -2, 2);
  const ReduceOptions options{d.flag(), d.flag() ? std::optional(d.dtype()) : std::nullopt};
  return Trial{call({x}, dims, options), gives(reduced(sizes(x), dims, options.keepdim))};
};

constexpr auto fuzz_place = [](FuzzDraw& d, const auto& call) {
  const Tensor x = d.tensor();
  const std::int64_t dim = d.dim(x.dim());
  const ArgReduceOptions options{d.flag() ? std::optional(dim) : std::nullopt, d.flag()};
  std::vector<std::int64_t> dims;
  if (options.dim) dims.push_back(dim);
  return Trial{call({x}, options), gives(reduced(sizes(x), dims, options.keepdim))};
};

constexpr auto extreme = [](FuzzDraw& d, const auto& call) {
  const Tensor x = d.tensor();
  const std::int64_t dim = d.dim(x.dim());
  const bool keepdim = d.flag();
  return Trial{call({x}, dim, {keepdim}), gives_both(reduced(sizes(x), {dim}, keepdim))};
};

/** Starts the row of a reduction. */
#define REDUCTION(op, Options) row(#op, CALL(op(x[0], dims, o), const Dims& dims, const Options& o))

const Operand kApart{.positive_definite_gap = true};
const Operand kFewValues{.low = 0, .high = 3, .integers = true};

const auto& kDTypes = kShortFloats;

/** Cases of operands that may be equal to 0. */
template <class Row> void test_truth(Row& row, double (*f)(const Line&)) {
  for (const Operand& operand :
       {Operand{.low = 0, .high = 1, .integers = true}, Operand{.boolean = true}, Operand{}})
    test_dims(row, f, {.operands = {operand}, .gradients = false});
}

/** Adds the cases and golden cases of sum and mean. */
template <class Row> Row& test_sum(Row&& row, const std::string& op, double (*f)(const Line&)) {
  return test_dims(row, f)
      .fuzz(dims_converted)
      .golden({"", "torch." + op, "real(3, 4)"})
      .golden({"0-dim", "torch." + op, "real()"})
      .golden({"one dimension", "torch." + op + "(x0, 1)", "real(2, 3, 4)"}, 1, {})
      .golden({"two dimensions", "torch." + op + "(x0, (0, 2), keepdim=True)", "real(2, 3, 4)"},
              {0, 2}, {.keepdim = true});
}

/** Adds the cases and golden cases of amax and amin. */
template <class Row> Row& test_extreme(Row&& row, const std::string& op, double (*f)(const Line&)) {
  return test_dims(row, f, {.operands = {kApart}, .shapes = without_empty(reduce_shapes())})
      .fuzz(dims_kept)
      .golden({"", "torch." + op + "(x0, (0, 1))", "distinct(3, 4)"}, {0, 1}, {})
      .golden({"keepdim", "torch." + op + "(x0, 1, keepdim=True)", "distinct(2, 5, 3)"}, 1,
              {.keepdim = true})
      .golden({"ties", "torch." + op + "(x0, 0)", "given([1., 2., 2., 1., 1.], True)"}, 0, {});
}

/** Adds the cases and golden cases of argmax and argmin. */
template <class Row> Row& test_place(Row&& row, const std::string& op, double (*f)(const Line&)) {
  for (const std::int64_t dim : {0, 1, -1})
    for (const bool keepdim : {false, true})
      row.test({.variant = std::to_string(dim) + (keepdim ? " keepdim" : ""),
                .oracle = reduced_by({static_cast<int>(dim)}, keepdim, f),
                .operands = {kFewValues},
                .shapes = without_empty(reduce_shapes()),
                .gradients = false},
               {.dim = dim, .keepdim = keepdim});
  return row
      .test({.variant = "all",
             .oracle = reduced_by({}, false, f),
             .shapes = {{Shape{}}, {{5}}, {{4, 7}}},
             .gradients = false})
      .fuzz(fuzz_place)
      .golden({"", "torch." + op, "distinct(3, 4)"})
      .golden({"one dimension", "torch." + op + "(x0, 1, keepdim=True)", "distinct(2, 5, 3)"},
              {.dim = 1, .keepdim = true});
}

const Rows total_rows("reduce", [] {
  auto sums = test_sum(REDUCTION(sum, ReduceOptions), "sum", total)
                  .golden({"integers", "torch.sum", "whole(3, 4)"})
                  .golden({"bool", "torch.sum", "mask(3, 4)"})
                  .smoke(smoke_reduction("sum of all", kDTypes))
                  .smoke(smoke_reduction("sum of rows", kDTypes), 1, {})
                  .smoke(smoke_reduction("sum of columns", kDTypes), 0, {});
  for (const bool keepdim : {false, true})
    sums.test(
        {.variant = keepdim ? "keepdim" : "middle",
         .oracle =
             [keepdim](const std::vector<Array>& x) {
               const std::int64_t outer = x[0].shape[0], n = x[0].shape[1], inner = x[0].shape[2];
               Array y{keepdim ? Shape{outer, 1, inner} : Shape{outer, inner},
                       std::vector<double>(static_cast<std::size_t>(outer * inner), 0.0)};
               for (std::int64_t i = 0; i < x[0].numel(); ++i)
                 y.values[static_cast<std::size_t>(i / (n * inner) * inner + i % inner)] += x[0][i];
               return std::vector<Array>{y};
             },
         .shapes = {{{2, 3, 4}}, {{1, 5, 1}}, {{2, 0, 3}}, {{3, 1, 2}}}},
        -2, {.keepdim = keepdim});
  test_sum(REDUCTION(mean, ReduceOptions), "mean", [](const Line& x) {
    return total(x) / static_cast<double>(x.size());
  }).smoke(smoke_reduction("mean of rows", kDTypes), 1, {});
});

const Rows reduced_extreme_rows("reduce", [] {
  test_extreme(REDUCTION(amax, KeepDimOptions), "amax", greatest)
      .smoke(smoke_reduction("amax of rows", kDTypes, kSame), 1, {});
  test_extreme(REDUCTION(amin, KeepDimOptions), "amin", least);
  test_place(row("argmax", CALL(argmax(x[0], o), const ArgReduceOptions& o)), "argmax",
             place_of_greatest)
      .smoke(smoke_reduction("argmax of rows", kDTypes, kSame), {.dim = 1});
  test_place(row("argmin", CALL(argmin(x[0], o), const ArgReduceOptions& o)), "argmin",
             place_of_least);
  const char* const kNan = "given([[1., 5., NAN], [4., NAN, 0.]])";
  row("max", CALL(max(x[0], dim, o), std::int64_t dim, const KeepDimOptions& o))
      .test({.oracle = extreme_and_place(greatest, place_of_greatest),
             .operands = {{.positive_definite_gap = true}},
             .shapes = without_empty(reduce_shapes())},
            1, {})
      .fuzz(extreme)
      .golden({"one dimension", "torch.max(x0, 1)", "distinct(2, 5, 3)"}, 1, {})
      .golden({"nan", "torch.max(x0, 0)", kNan}, 0, {});
  row("max", CALL(max(x[0]))).golden({"", "torch.max", "distinct(3, 4)"});
  row("min", CALL(min(x[0], dim, o), std::int64_t dim, const KeepDimOptions& o))
      .test({.oracle = extreme_and_place(least, place_of_least),
             .operands = {{.positive_definite_gap = true}},
             .shapes = without_empty(reduce_shapes())},
            1, {})
      .fuzz(extreme)
      .golden({"one dimension", "torch.min(x0, 1)", "distinct(2, 5, 3)"}, 1, {})
      .golden({"nan", "torch.min(x0, 0)", kNan}, 0, {});
  row("min", CALL(min(x[0]))).golden({"", "torch.min", "distinct(3, 4)"});
});

const Rows truth_rows("reduce", [] {
  auto all_true = REDUCTION(all, KeepDimOptions)
                      .fuzz(dims_kept)
                      .golden({"", "x0.all()", "mask(3, 4)"})
                      .golden({"one dimension", "x0.all(1)", "mask(6, 2)"}, 1, {});
  test_truth(all_true, [](const Line& x) {
    return nonzeros(x) == static_cast<double>(x.size()) ? 1.0 : 0.0;
  });
  auto any_true = REDUCTION(any, KeepDimOptions)
                      .fuzz(dims_kept)
                      .golden({"", "x0.any()", "mask(3, 4)"})
                      .golden({"one dimension", "x0.any(1)", "mask(6, 2)"}, 1, {});
  test_truth(any_true, [](const Line& x) { return nonzeros(x) > 0 ? 1.0 : 0.0; });
  auto counts =
      REDUCTION(count_nonzero, KeepDimOptions)
          .fuzz(dims_kept)
          .golden({"", "torch.count_nonzero", "whole(3, 4, high=2)"})
          .golden({"one dimension", "torch.count_nonzero(x0, 0)", "whole(3, 4, high=2)"}, 0, {});
  test_truth(counts, nonzeros);
});

}  // namespace
