// Cases of the ops that look values up.
#include <algorithm>

#include "places.h"

using namespace cases;
using namespace mezzo;

namespace {

/** Where each value of x[1] belongs in its line of x[0]: the number of smaller (or equal)
 *  elements. */
Oracle counted(bool right) {
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

const Registrar additions([] {
  add_case({.op = "searchsorted",
            .call = CALL(searchsorted(sort(x[0]).values, x[1])),
            .oracle = counted(false),
            .operands = {{}, {}},
            .shapes = {{{7}, {3, 4}}, {{0}, {3}}, {{5}, Shape{}}, {{33}, {0}}, {{2, 5}, {2, 3}}},
            .gradients = false,
            .single_op = false});
  add_case({.op = "searchsorted",
            .variant = "to the right of equal integers",
            .call = CALL(searchsorted(sort(x[0]).values, x[1], {.right = true})),
            .oracle = counted(true),
            .operands = {integers(0, 4), integers(-1, 5)},
            .shapes = {{{12}, {9}}, {{2, 3, 9}, {2, 3, 4}}},
            .gradients = false,
            .single_op = false});
  add_case({.op = "bucketize",
            .call = CALL(bucketize(x[0], boundaries_for(x[0]))),
            .oracle = elementwise(bucket),
            .gradients = false});
  add_case({.op = "isin",
            .call = CALL(isin(x[0], x[1])),
            .oracle = member(false),
            .operands = {integers(0, 9), integers(2, 6)},
            .shapes = {{{40}, {3}}, {{2, 3}, {2, 2}}, {{5}, {0}}, {{0}, {3}}, {Shape{}, Shape{}}},
            .gradients = false});
  add_case({.op = "isin",
            .variant = "inverted, floats",
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
            .single_op = false});
  add_case({.op = "bincount",
            .call = CALL(bincount(x[0], {.minlength = 10})),
            .oracle =
                [](const std::vector<Array>& x) {
                  Array y{{10}, std::vector<double>(10)};
                  for (const double v : x[0].values) ++y.values[static_cast<std::size_t>(v)];
                  return std::vector<Array>{y};
                },
            .operands = {integers(0, 9)},
            .shapes = {{{40}}, {{3}}, {{0}}},
            .gradients = false});
  add_case({.op = "bincount",
            .variant = "weights",
            .call = CALL(bincount(x[0], {.weights = x[1], .minlength = 4})),
            .oracle =
                [](const std::vector<Array>& x) {
                  Array y{{4}, std::vector<double>(4)};
                  for (std::int64_t i = 0; i < x[0].numel(); ++i)
                    y.values[static_cast<std::size_t>(x[0][i])] += x[1][i];
                  return std::vector<Array>{y};
                },
            .operands = {integers(0, 3), {.constant = true}},
            .shapes = {{{40}, {40}}, {{0}, {0}}},
            .gradients = false});
});

}  // namespace
