#include "reduce_oracle.h"

#include <algorithm>
#include <limits>

namespace cases {

namespace {

bool is_reduced(int d, int rank, const std::vector<int>& dims) {
  for (const int dim : dims)
    if ((dim < 0 ? dim + rank : dim) == d) return true;
  return dims.empty();
}

Shape kept_shape(const Shape& shape, const std::vector<int>& dims, bool keepdim) {
  Shape out;
  for (int d = 0; d < shape.rank(); ++d) {
    if (!is_reduced(d, shape.rank(), dims))
      out.push_back(shape[d]);
    else if (keepdim)
      out.push_back(1);
  }
  return out;
}

}  // namespace

double p_norm(const Line& x, double p) {
  double sum = 0, greatest = 0, least = std::numeric_limits<double>::infinity();
  for (const double v : x) {
    sum += p == 0 ? (v != 0 ? 1 : 0) : std::pow(std::abs(v), p);
    greatest = std::max(greatest, std::abs(v));
    least = std::min(least, std::abs(v));
  }
  if (std::isinf(p)) return p > 0 ? greatest : least;
  return p == 0 ? sum : std::pow(sum, 1 / p);
}

std::vector<std::vector<std::int64_t>> lines_of(const Shape& shape, const std::vector<int>& dims) {
  std::int64_t numel = 1, count = 1;
  for (int d = 0; d < shape.rank(); ++d) {
    numel *= shape[d];
    if (!is_reduced(d, shape.rank(), dims)) count *= shape[d];
  }
  std::vector<std::vector<std::int64_t>> lines(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < numel; ++i) {
    std::int64_t rest = i, line = 0, step = 1;
    for (int d = shape.rank() - 1; d >= 0; rest /= shape[d], --d) {
      if (is_reduced(d, shape.rank(), dims)) continue;
      line += rest % shape[d] * step;
      step *= shape[d];
    }
    lines[static_cast<std::size_t>(line)].push_back(i);
  }
  return lines;
}

Oracle reduced_by(const std::vector<int>& dims, bool keepdim,
                  std::function<double(const Line&)> f) {
  return [=](const std::vector<Array>& x) {
    Array y{kept_shape(x[0].shape, dims, keepdim), {}};
    for (const auto& positions : lines_of(x[0].shape, dims)) {
      Line line;
      for (const std::int64_t i : positions) line.push_back(x[0][i]);
      y.values.push_back(f(line));
    }
    return std::vector<Array>{y};
  };
}

Oracle lines_by(const std::vector<int>& dims, std::function<Line(const Line&)> f) {
  return [=](const std::vector<Array>& x) {
    Array y = x[0];
    for (const auto& positions : lines_of(x[0].shape, dims)) {
      Line line;
      for (const std::int64_t i : positions) line.push_back(x[0][i]);
      const Line result = f(line);
      for (std::size_t k = 0; k < positions.size(); ++k)
        y.values[static_cast<std::size_t>(positions[k])] = result[k];
    }
    return std::vector<Array>{y};
  };
}

const std::vector<std::vector<Shape>>& reduce_shapes() {
  static const std::vector<std::vector<Shape>> shapes{{{2, 3, 4}}, {{1, 5, 1}},  {{3, 1, 2}},
                                                      {{0, 3, 2}}, {{2, 17, 5}}, {{1, 3, 70}}};
  return shapes;
}

}  // namespace cases
