// Rows of the ops that look values up or count them.
#include <algorithm>

#include "../places.h"
#include "../row.h"
#include "smoke_lines.h"

using namespace cases;
using namespace rows;
using namespace mezzo;

namespace {

/** Where each value of x[1] belongs in its line of x[0]: the number of smaller (or equal)
 *  elements. */
Oracle counted_places(bool right) {
  return [=](const std::vector<Array>& x) {
    const std::int64_t length = x[0].shape.back(), lines = length == 0 ? 0 : x[0].numel() / length;
    const std::int64_t per_line = lines == 0 ? 0 : x[1].numel() / lines;
    Array y{x[1].shape, {}};
    for (std::int64_t i = 0; i < x[1].numel(); ++i) {
      std::int64_t smaller = 0;
      for (std::int64_t k = 0; k < length; ++k) {
        const double element = x[0][i / per_line * length + k];
        smaller += element < x[1][i] || (right && element == x[1][i]);
      }
      y.values.push_back(static_cast<double>(smaller));
    }
    return std::vector<Array>{y};
  };
}

/** The bucket of each element between -1, 0.5 and 1. */
double bucket(double a) { return (a > -1) + (a > 0.5) + (a > 1); }

Tensor boundaries_for(const Tensor& x) {
  return tensor({-1, 0.5, 1}, {.dtype = x.dtype(), .device = x.device()});
}

Oracle member(bool invert) {
  return [=](const std::vector<Array>& x) {
    Array y{x[0].shape, {}};
    for (const double v : x[0].values) {
      const bool found = std::find(x[1].values.begin(), x[1].values.end(), v) != x[1].values.end();
      y.values.push_back(found != invert);
    }
    return std::vector<Array>{y};
  };
}

Operand integers(double low, double high) { return {.low = low, .high = high, .integers = true}; }

const char* const kEdges = "given([[-1.0, -0.5, 0.25, 1.5], [-2.0, -2.0, 0.0, 1.0]])";

const Rows search_rows("index", [] {
  row("searchsorted", CALL(searchsorted(x[0], x[1], o), const SearchsortedOptions& o))
      .test({.call = CALL(searchsorted(sort(x[0]).values, x[1])),
             .oracle = counted_places(false),
             .operands = {{}, {}},
             .shapes = {{{7}, {3, 4}}, {{0}, {3}}, {{5}, Shape{}}, {{33}, {0}}, {{2, 5}, {2, 3}}},
             .gradients = false,
             .single_op = false})
      .test({.variant = "to the right of equal integers",
             .call = CALL(searchsorted(sort(x[0]).values, x[1], {.right = true})),
             .oracle = counted_places(true),
             .operands = {integers(0, 4), integers(-1, 5)},
             .shapes = {{{12}, {9}}, {{2, 3, 9}, {2, 3, 4}}},
             .gradients = false,
             .single_op = false})
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Shape shape = d.short_shape(0, 3);
        Shape sought = shape;
        if (sought.rank() > 0 && d.flag()) sought[sought.rank() - 1] = d.below(5);
        if (d.chance(0.3)) sought = d.shape();
        const Tensor sorted = d.tensor(d.flag() ? Shape{d.below(6)} : shape, d.dtype());
        const Tensor values = d.tensor(sought, d.flag() ? sorted.dtype() : d.dtype());
        const SearchsortedOptions options{.right = d.flag(), .out_int32 = d.flag()};
        bool fits = sorted.dim() == 1 || (sorted.dim() > 0 && sorted.dim() == values.dim());
        for (int i = 0; fits && i < sorted.dim() - 1; ++i)
          fits = sorted.shape()[i] == values.shape()[i];
        return Trial{call({sorted, values}, options), fits ? gives(sizes(values)) : refused()};
      })
      .golden({"", "torch.searchsorted", std::string(kEdges) + ", real(2, 5)"})
      .golden({"right", "torch.searchsorted(x0, x1, right=True)",
               "given([1, 2, 2, 2, 5]), whole(2, 4, high=6)"},
              {.right = true})
      .golden({"i32", "torch.searchsorted(x0, x1, out_int32=True)",
               std::string(kEdges) + ", constant(2, 3)"},
              {.out_int32 = true});
  row("searchsorted", CALL(searchsorted(sort(x[0]).values, x[0])))
      .smoke(smoke_rows("searchsorted", {f32}, smoke::Expected::same));
  row("searchsorted", CALL(searchsorted(x[0], x[1], {.sorter = argsort(x[0])})))
      .golden({"sorter", "torch.searchsorted(x0, x1, sorter=torch.argsort(x0))",
               "constant(6), constant(4)"});
  row("bucketize", CALL(bucketize(x[0], x[1], o), const BucketizeOptions& o))
      .test({.call = CALL(bucketize(x[0], boundaries_for(x[0]))),
             .oracle = elementwise(bucket),
             .gradients = false})
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.maybe_huge();
        const Tensor boundaries = d.tensor(d.short_shape(0, 2), d.flag() ? x.dtype() : d.dtype());
        const BucketizeOptions options{.right = d.flag(), .out_int32 = d.flag()};
        const bool fits = boundaries.dim() == 1;
        return Trial{call({x, boundaries}, options), fits ? gives(sizes(x)) : refused()};
      })
      .golden({"", "torch.bucketize", "constant(3, 4), given([-1.0, 0.0, 1.0])"})
      .golden({"right", "torch.bucketize(x0, x1, right=True)", "whole(9), given([2, 4, 4, 8])"},
              {.right = true});
  row("isin", CALL(isin(x[0], x[1], o), const IsinOptions& o))
      .test({.oracle = member(false),
             .operands = {integers(0, 9), integers(2, 6)},
             .shapes = {{{40}, {3}}, {{2, 3}, {2, 2}}, {{5}, {0}}, {{0}, {3}}, {Shape{}, Shape{}}},
             .gradients = false})
      .test(
          {.variant = "inverted, floats",
           .call = CALL(isin(x[0], x[0].reshape({x[0].numel()}).slice(0, 1, 3), {.invert = true})),
           .oracle =
               [](const std::vector<Array>& x) {
                 Array y{x[0].shape, std::vector<double>(x[0].values.size(), 1)};
                 for (std::size_t i = 1; i < std::min<std::size_t>(3, y.values.size()); ++i)
                   y.values[i] = 0;
                 return std::vector<Array>{y};
               },
           .operands = {{.positive_definite_gap = true}},
           .shapes = {{{7}}, {{2, 3}}, {{1}}},
           .gradients = false,
           .single_op = false})
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.maybe_huge(), list_of = d.tensor();
        const bool invert = d.flag();
        return Trial{call({x, list_of}, {.invert = invert}), gives(sizes(x))};
      })
      .golden({"", "torch.isin", "whole(3, 4), whole(5)"})
      .golden({"inverted", "torch.isin(x0, x1, invert=True)",
               "given([0.0, NAN, 1.0, -2.0]), given([NAN, 1.0, 3.0])"},
              {.invert = true});
  row("bincount",
      CALL(bincount(x[0], {.weights = optional(x, 1), .minlength = least}), std::int64_t least))
      .test({.oracle =
                 [](const std::vector<Array>& x) {
                   Array y{{10}, std::vector<double>(10)};
                   for (const double v : x[0].values) ++y.values[static_cast<std::size_t>(v)];
                   return std::vector<Array>{y};
                 },
             .operands = {integers(0, 9)},
             .shapes = {{{40}}, {{3}}, {{0}}},
             .gradients = false},
            10)
      .test({.variant = "weights",
             .oracle =
                 [](const std::vector<Array>& x) {
                   Array y{{4}, std::vector<double>(4)};
                   for (std::int64_t i = 0; i < x[0].numel(); ++i)
                     y.values[static_cast<std::size_t>(x[0][i])] += x[1][i];
                   return std::vector<Array>{y};
                 },
             .operands = {integers(0, 3), {.constant = true}},
             .shapes = {{{40}, {40}}, {{0}, {0}}},
             .gradients = false},
            4)
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Shape shape = d.short_shape(0, 2);
        const Tensor x = d.index(shape, 5), weights = d.optional(shape, d.dtype());
        const std::int64_t least = d.number(0, 9);
        const bool fits =
            x.dim() == 1 && least >= 0 && (!weights.defined() || weights.shape() == shape);
        return Trial{call({x, weights}, least), fits ? gives({kAny}) : refused()};
      })
      .golden({"", "torch.bincount", "whole(20)"}, 0)
      .golden({"weights", "torch.bincount(x0, x1, 12)", "whole(20), constant(20)"}, 12);
});

const Rows unique_rows("space", [] {
  row("unique",
      [](const Tensors& x) {
        const UniqueResult r = unique(x[0], {.return_inverse = true, .return_counts = true});
        return Tensors{r.values, r.inverse, r.counts};
      })
      .test({.oracle =
                 [](const std::vector<Array>& x) {
                   std::vector<double> distinct = x[0].values;
                   std::sort(distinct.begin(), distinct.end());
                   distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
                   const auto n = static_cast<std::int64_t>(distinct.size());
                   Array inverse{x[0].shape, {}},
                       counts{{n}, std::vector<double>(distinct.size(), 0.0)};
                   for (const double v : x[0].values) {
                     const auto at =
                         std::find(distinct.begin(), distinct.end(), v) - distinct.begin();
                     inverse.values.push_back(static_cast<double>(at));
                     counts.values[static_cast<std::size_t>(at)] += 1;
                   }
                   return std::vector<Array>{{{n}, distinct}, inverse, counts};
                 },
             .operands = {{.low = 0, .high = 4, .integers = true}},
             .shapes = {{{12}}, {{3, 4}}, {{1}}, {{0}}, {Shape{}}},
             .gradients = false})
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.tensor();
        return Trial{call({x}), std::vector<Sizes>{{kAny}, sizes(x), {kAny}}};
      })
      .golden(
          {"", "torch.unique(x0, return_inverse=True, return_counts=True)", "whole(3, 5, high=4)"});
});

}  // namespace
