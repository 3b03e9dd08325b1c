#include "places.h"

#include <algorithm>

namespace cases {

std::vector<Case>& all_cases() {
  static std::vector<Case> list;
  return list;
}

double broadcast_at(const Array& x, const Shape& out, std::int64_t index) {
  std::int64_t position = 0, step = 1;
  for (int d = out.rank() - 1, e = x.shape.rank() - 1; e >= 0; --d, --e) {
    const std::int64_t i = index % out[d];
    index /= out[d];
    if (x.shape[e] != 1) position += i * step;
    step *= x.shape[e];
  }
  return x[position];
}

namespace {

Shape broadcast_shape(const std::vector<Array>& x) {
  Shape out = x[0].shape;
  for (const Array& a : x) {
    while (out.rank() < a.shape.rank()) out.insert(0, 1);
    const int lead = out.rank() - a.shape.rank();
    for (int d = 0; d < a.shape.rank(); ++d)
      if (out[lead + d] == 1) out[lead + d] = a.shape[d];
  }
  return out;
}

template <class F> std::vector<Array> filled(const std::vector<Array>& x, F&& value) {
  Array y{broadcast_shape(x), {}};
  for (std::int64_t i = 0; i < numel(y.shape); ++i) y.values.push_back(value(y.shape, i));
  return {y};
}

}  // namespace

Oracle elementwise(double (*f)(double)) {
  return [f](const std::vector<Array>& x) {
    return filled(x, [&](const Shape& s, std::int64_t i) { return f(broadcast_at(x[0], s, i)); });
  };
}

Oracle elementwise(double (*f)(double, double)) {
  return [f](const std::vector<Array>& x) {
    return filled(x, [&](const Shape& s, std::int64_t i) {
      return f(broadcast_at(x[0], s, i), broadcast_at(x[1], s, i));
    });
  };
}

Oracle elementwise(double (*f)(double, double, double)) {
  return [f](const std::vector<Array>& x) {
    return filled(x, [&](const Shape& s, std::int64_t i) {
      return f(broadcast_at(x[0], s, i), broadcast_at(x[1], s, i), broadcast_at(x[2], s, i));
    });
  };
}

Array moved(const Array& x, const Shape& shape,
            const std::function<std::int64_t(std::int64_t)>& source) {
  Array y{shape, {}};
  for (std::int64_t i = 0; i < numel(shape); ++i) {
    const std::int64_t from = source(i);
    y.values.push_back(from < 0 ? 0 : x[from]);
  }
  return y;
}

const std::vector<std::vector<Shape>>& unary_shapes() {
  static const std::vector<std::vector<Shape>> shapes{{Shape{}}, {{0}},       {{1}},       {{5}},
                                                      {{3, 4}},  {{2, 0, 3}}, {{2, 3, 5}}, {{37}}};
  return shapes;
}

const std::vector<std::vector<Shape>>& binary_shapes() {
  static const std::vector<std::vector<Shape>> shapes{
      {{3, 4}, {3, 4}}, {{3, 4}, {4}},         {{4}, {3, 4}}, {{2, 1, 3}, {4, 1}},
      {Shape{}, {5}},   {{5}, Shape{}},        {{0, 3}, {3}}, {Shape{}, Shape{}},
      {{1}, {7}},       {{2, 3, 1}, {2, 1, 5}}};
  return shapes;
}

}  // namespace cases
