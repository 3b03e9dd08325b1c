// Cases of the softmax family.
#include <algorithm>

#include "reduce_oracle.h"

using namespace cases;
using namespace mezzo;

namespace {

Line log_softmax_line(const Line& x) {
  if (x.empty()) return x;
  const double max = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (const double v : x) sum += std::exp(v - max);
  Line y;
  for (const double v : x) y.push_back(v - max - std::log(sum));
  return y;
}

Line softmax_line(const Line& x) {
  Line y = log_softmax_line(x);
  for (double& v : y) v = std::exp(v);
  return y;
}

Line softmin_line(Line x) {
  for (double& v : x) v = -v;
  return softmax_line(x);
}

template <class Function>
void add_along(const char* op, Function function, Line (*f)(const Line&)) {
  for (const int dim : {0, 1, -1})
    add_case(
        {.op = op,
         .variant = std::to_string(dim),
         .call =
             [=](const std::vector<Tensor>& x) { return std::vector<Tensor>{function(x[0], dim)}; },
         .oracle = lines_by({dim}, f),
         .shapes = {{{2, 3, 4}},
                    {{1, 5, 1}},
                    {{3, 1, 2}},
                    {{0, 3, 2}},
                    {{2, 17, 5}},
                    {{1, 3, 70}},
                    {{300, 2}}},
         .factor = 4});
}

const Registrar additions([] {
  add_along(
      "softmax", [](const Tensor& x, int dim) { return softmax(x, dim); }, softmax_line);
  add_along(
      "log_softmax", [](const Tensor& x, int dim) { return log_softmax(x, dim); },
      log_softmax_line);
  add_along(
      "softmin", [](const Tensor& x, int dim) { return softmin(x, dim); },
      [](const Line& x) { return softmin_line(x); });
  add_case({.op = "softmax",
            .variant = "0-dim",
            .call = CALL(softmax(x[0], -1)),
            .oracle = lines_by({}, softmax_line),
            .shapes = {{Shape{}}}});
});

}  // namespace
