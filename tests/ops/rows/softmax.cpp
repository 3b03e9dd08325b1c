// Rows of the softmax family.
#include <algorithm>

#include "../reduce_oracle.h"
#include "../row.h"
#include "smoke_lines.h"

using namespace cases;
using namespace rows;
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

/** Adds cases and golden cases. `f` computes a line, `torch` is PyTorch's function. */
template <class Row> Row& test_lines(Row&& row, Line (*f)(const Line&), const std::string& torch) {
  for (const int dim : {0, 1, -1})
    row.test({.variant = std::to_string(dim),
              .oracle = lines_by({dim}, f),
              .shapes = {{{2, 3, 4}},
                         {{1, 5, 1}},
                         {{3, 1, 2}},
                         {{0, 3, 2}},
                         {{2, 17, 5}},
                         {{1, 3, 70}},
                         {{300, 2}}},
              .factor = 4},
             dim);
  return row.fuzz(along)
      .golden({"", torch + "(x0, dim=1)", "real(3, 5)"}, 1)
      .golden({"first dimension", torch + "(x0, dim=0)", "real(4, 3, 2, low=-9, high=9)"}, 0)
      .golden({"large", torch + "(x0, dim=0)", "given([1000., 1001., -1000.], True)"}, 0);
}

const Rows softmax_rows("reduce", [] {
  test_lines(row("softmax", CALL(softmax(x[0], dim), std::int64_t dim)), softmax_line, "F.softmax")
      .test({.variant = "0-dim", .oracle = lines_by({}, softmax_line), .shapes = {{Shape{}}}}, -1)
      .smoke(smoke_normalized("softmax", 0, false), -1)
      .smoke(smoke_normalized("softmax", 0, true), -1);
  test_lines(row("log_softmax", CALL(log_softmax(x[0], dim), std::int64_t dim)), log_softmax_line,
             "F.log_softmax")
      .smoke(smoke_normalized("log_softmax", 0, false), -1)
      .smoke(smoke_normalized("log_softmax", 0, true), -1);
  test_lines(
      row("softmin", CALL(softmin(x[0], dim), std::int64_t dim)),
      [](const Line& x) { return softmin_line(x); }, "F.softmin");
});

}  // namespace
