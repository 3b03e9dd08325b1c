// Rows of the functions that create tensors. They are not ops; the fuzzer alone calls them.
#include <cmath>

#include "../row.h"

using namespace rows;
using namespace mezzo;

namespace {

Shape raw_shape(FuzzDraw& d) {
  Shape shape;
  for (const std::int64_t size : d.numbers(4, 0, 5)) shape.push_back(size);
  return shape;
}

/** Draws a shape and options. */
constexpr auto shaped = [](FuzzDraw& d, const auto& call) {
  const Shape shape = raw_shape(d);
  const TensorOptions options{.dtype = d.dtype()};
  return Trial{call({}, shape, options),
               none_negative(sizes(shape)) ? gives(sizes(shape)) : refused()};
};

/** Returns the number of elements from start to end by step; exact where all three are small
 *  integers. */
Expected counted_range(double start, double end, double step) {
  const double places = (end - start) / step;
  if (!(places > -1) || !(places < 0x1p63)) return refused();
  for (const double number : {start, end, step})
    if (number != std::floor(number) || std::abs(number) > 0x1p50) return gives(Sizes{kAny});
  const Wide way = static_cast<Wide>(end) - static_cast<Wide>(start), by = static_cast<Wide>(step);
  return gives(Sizes{(way + (by > 0 ? by - 1 : by + 1)) / by});
}

#define SHAPED(name) \
  row(#name "()", CALL(name(shape, o), const Shape& shape, const TensorOptions& o)).fuzz(shaped)

const Rows create_rows("", [] {
  SHAPED(zeros);
  SHAPED(empty);
  SHAPED(rand);
  SHAPED(randn);
  row("full()",
      CALL(full(shape, value, o), double value, const Shape& shape, const TensorOptions& o))
      .fuzz([](FuzzDraw& d, const auto& call) {
        const double value = d.real();
        const Shape shape = raw_shape(d);
        return Trial{call({}, value, shape, {.dtype = d.dtype()}),
                     none_negative(sizes(shape)) ? gives(sizes(shape)) : refused()};
      });
  row("randint()", CALL(randint(-2, high, shape, o), std::int64_t high, const Shape& shape,
                        const TensorOptions& o))
      .fuzz([](FuzzDraw& d, const auto& call) {
        const std::int64_t high = d.number(-1, 9);
        const Shape shape = raw_shape(d);
        return Trial{call({}, high, shape, {.dtype = d.dtype()}),
                     none_negative(sizes(shape)) ? gives(sizes(shape)) : refused()};
      });
  row("arange()", CALL(arange(start, end, step, o), double start, double end, double step,
                       const TensorOptions& o))
      .fuzz([](FuzzDraw& d, const auto& call) {
        const bool whole = d.flag();
        double start = d.real(-3, 3), end = d.real(-3, 9), step = d.real(-2, 2);
        if (whole) start = std::round(start), end = std::round(end), step = std::round(step);
        const TensorOptions options{.dtype = d.dtype()};
        return Trial{call({}, start, end, step, options),
                     step == 0 ? refused() : counted_range(start, end, step)};
      });
  row("linspace()", CALL(linspace(start, end, steps, o), double start, double end,
                         std::int64_t steps, const TensorOptions& o))
      .fuzz([](FuzzDraw& d, const auto& call) {
        const double start = d.real(), end = d.real();
        const std::int64_t steps = d.number(-1, 9);
        const TensorOptions options{.dtype = d.dtype()};
        return Trial{call({}, start, end, steps, options), steps >= 0 ? gives({steps}) : refused()};
      });
  row("eye()", CALL(eye(n, m, o), std::int64_t n, std::int64_t m, const TensorOptions& o))
      .fuzz([](FuzzDraw& d, const auto& call) {
        const std::int64_t n = d.number(-1, 5), m = d.number(-1, 5);
        const TensorOptions options{.dtype = d.dtype()};
        return Trial{call({}, n, m, options), n >= 0 && m >= 0 ? gives({n, m}) : refused()};
      });
  row("randperm()", CALL(randperm(n), std::int64_t n)).fuzz([](FuzzDraw& d, const auto& call) {
    const std::int64_t n = d.number(-1, 20);
    return Trial{call({}, n), n >= 0 ? gives({n}) : refused()};
  });
});

}  // namespace
