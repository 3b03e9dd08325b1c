#include "create.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "../core/checked_size.h"
#include "../core/dispatch.h"
#include "../core/error.h"
#include "../text/text.h"
#include "elementwise/operators.h"
#include "elementwise/selection.h"
#include "reduce/reduce.h"
#include "reduce/scan.h"

namespace mezzo {

namespace {
Tensor finished(const Tensor& x, const TensorOptions& options) {
  if (options.requires_grad) x.requires_grad_();
  return x;
}

/** Returns 0, 1, 2, ... in i64, computed on the device without a copy from the host, so that
 *  captured steps may call it. */
Tensor counted(std::int64_t n, Device device) {
  return cumsum(ones({n}, {.dtype = DType::i64, .device = device}), 0) - 1;
}

/** Returns the values in row-major order, with the dtype and on the device of the options. */
template <class T>
Tensor from_values(const std::vector<T>& values, const Shape& shape, const TensorOptions& options) {
  if (checked_numel(shape, "tensor") != static_cast<std::int64_t>(values.size()))
    fail<ShapeError>("tensor", {.what = "number of values does not fit the shape",
                                .got = str(values.size(), " values for ", shape)});
  const ApiScope called("tensor");
  const NoGradNoCasts plain_ops;
  Tensor x = empty_tensor(shape, dtype_of<T>(), cpu);
  std::copy(values.begin(), values.end(), x.data<T>());
  x = x.to(options.dtype_or(DType::f32)).to(options.device);
  return finished(options.pin_memory ? x.pin_memory() : x, options);
}

/** Returns the options with a dtype: `otherwise` if none is given. */
TensorOptions with_dtype(TensorOptions options, DType otherwise) {
  options.dtype = options.dtype_or(otherwise);
  return options;
}

/** Returns whether values are converted from i64 to the dtype, which rounds once and keeps all
 *  digits. For narrower integers they are converted from f64, which saturates. */
bool holds_integers(DType dtype) { return dtype == DType::i64 || is_floating(dtype); }

/** Returns value(0), ..., value(n - 1) on the CPU, each rounded once to the dtype. Uses a block of
 *  4096 values as temporary memory. */
template <class F> Tensor computed(std::int64_t n, const TensorOptions& options, F&& value) {
  using T = decltype(value(n));
  const NoGradNoCasts plain_ops;
  const Tensor x = empty_tensor({n}, options.dtype_or(DType::f32), cpu, options.pin_memory);
  constexpr std::int64_t kBlock = 4096;
  const Tensor block = empty_tensor({std::min(n, kBlock)}, dtype_of<T>(), cpu);
  T* const values = block.data<T>();
  for (std::int64_t first = 0; first < n; first += kBlock) {
    const std::int64_t length = std::min(n - first, kBlock);
    for (std::int64_t i = 0; i < length; ++i) values[i] = value(first + i);
    x.narrow(0, first, length).copy_(block.narrow(0, 0, length));
  }
  return finished(x, options);
}

}  // namespace

Tensor empty(const Shape& shape, const TensorOptions& options) {
  return finished(
      empty_tensor(shape, options.dtype_or(DType::f32), options.device, options.pin_memory),
      options);
}

Tensor full(const Shape& shape, double value, const TensorOptions& options) {
  const NoGrad no_grad;
  const Tensor x =
      empty_tensor(shape, options.dtype_or(DType::f32), options.device, options.pin_memory);
  x.fill_(value);
  return finished(x, options);
}

Tensor zeros(const Shape& shape, const TensorOptions& options) { return full(shape, 0, options); }
Tensor ones(const Shape& shape, const TensorOptions& options) { return full(shape, 1, options); }

Tensor empty_like(const Tensor& x) {
  return empty_tensor(x.shape(), x.dtype(), x.device(), false, x.memory_format());
}
Tensor zeros_like(const Tensor& x) { return full_like(x, 0); }
Tensor ones_like(const Tensor& x) { return full_like(x, 1); }

Tensor tensor(const std::vector<double>& values, const Shape& shape, const TensorOptions& options) {
  return from_values(values, shape, options);
}

Tensor detail::tensor_of_integers(const std::vector<std::int64_t>& values, const Shape& shape,
                                  const TensorOptions& options, bool bools) {
  const TensorOptions wanted = with_dtype(options, bools ? DType::boolean : DType::i64);
  if (holds_integers(*wanted.dtype)) return from_values(values, shape, wanted);
  return from_values(std::vector<double>(values.begin(), values.end()), shape, wanted);
}

void detail::refuse_integer(std::uint64_t value) {
  fail<ValueError>(
      "tensor",
      {.what = "i64 does not hold this integer", .got = str(value), .expected = "less than 2^63"});
}

void detail::require_equal_lengths(std::size_t got, std::size_t expected) {
  if (got != expected)
    fail<ShapeError>("tensor", {.what = "parts of nested braces differ in length",
                                .got = str(got, " after ", expected),
                                .expected = str(expected, "")});
}

Tensor tensor(const std::vector<double>& values, const TensorOptions& options) {
  return tensor(values, {static_cast<std::int64_t>(values.size())}, options);
}

Tensor full_like(const Tensor& x, double value) {
  const NoGrad no_grad;
  const Tensor full = empty_like(x);
  full.fill_(value);
  return full;
}

namespace {

[[noreturn]] void refuse_range(const std::string& range) {
  fail<ValueError>("arange", {.what = "the step does not lead to the end",
                              .got = range,
                              .expected = "a finite number of steps"});
}

/** Returns the number of steps from start to end, end excluded. */
std::int64_t count_steps(std::int64_t start, std::int64_t end, std::int64_t step) {
  const bool leads = step > 0 ? start <= end : step < 0 && start >= end;
  if (!leads) refuse_range(str("from ", start, " to ", end, " by ", step));
  const auto first = static_cast<std::uint64_t>(start), last = static_cast<std::uint64_t>(end),
             size = static_cast<std::uint64_t>(step);
  const std::uint64_t distance = step > 0 ? last - first : first - last,
                      pace = step > 0 ? size : 0 - size;
  const std::uint64_t count = distance / pace + (distance % pace != 0 ? 1 : 0);
  if (count > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    fail<SizeError>("arange", {.what = "number of elements overflows", .got = str(count)});
  return static_cast<std::int64_t>(count);
}

}  // namespace

Tensor detail::arange_integers(std::int64_t start, std::int64_t end, std::int64_t step,
                               const TensorOptions& given) {
  const TensorOptions options = with_dtype(given, DType::i64);
  if (!holds_integers(*options.dtype))
    return arange(static_cast<double>(start), static_cast<double>(end), static_cast<double>(step),
                  options);
  const std::int64_t n = count_steps(start, end, step);
  const ApiScope called("arange");
  const NoGradNoCasts plain_ops;
  if (options.device != cpu)
    return finished((counted(n, options.device) * step + start).to(*options.dtype), options);
  // Unsigned arithmetic, because i * step alone may overflow.
  return computed(n, options, [&](std::int64_t i) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(start) +
                                     static_cast<std::uint64_t>(i) *
                                         static_cast<std::uint64_t>(step));
  });
}

Tensor arange(double start, double end, double step, const TensorOptions& options) {
  const bool whole = fits_i64(start) && fits_i64(end) && fits_i64(step);
  if (options.dtype == DType::i64 && whole)
    return detail::arange_integers(static_cast<std::int64_t>(start), static_cast<std::int64_t>(end),
                                   static_cast<std::int64_t>(step), options);
  const double count = std::ceil((end - start) / step);
  if (step == 0 || !std::isfinite(count) || count < 0)
    refuse_range(str("from ", start, " to ", end, " by ", step));
  if (count > static_cast<double>(kMaxElements))
    fail<SizeError>("arange",
                    {.what = "too many steps", .got = str(count), .expected = "at most 2^59"});
  const ApiScope called("arange");
  const auto n = static_cast<std::int64_t>(count);
  if (options.device != cpu)
    return finished(
        (counted(n, options.device).to(DType::f64) * step + start).to(options.dtype_or(DType::f32)),
        options);
  return computed(n, options,
                  [&](std::int64_t i) { return start + static_cast<double>(i) * step; });
}

Tensor arange(double start, double end, const TensorOptions& options) {
  return arange(start, end, 1, options);
}

Tensor arange(double end, const TensorOptions& options) { return arange(0, end, 1, options); }

Tensor linspace(double start, double end, std::int64_t steps, const TensorOptions& options) {
  if (steps < 0)
    fail<ValueError>(
        "linspace",
        {.what = "negative number of steps", .got = str(steps), .expected = "steps >= 0"});
  const ApiScope called("linspace");
  // Each value is computed from the nearer end, so that both ends are exact.
  const double step = steps > 1 ? (end - start) / static_cast<double>(steps - 1) : 0;
  if (options.device != cpu) {
    const Tensor i = counted(steps, options.device).to(DType::f64);
    const Tensor values = where(i * 2 < static_cast<double>(steps), i * step + start,
                                (i - static_cast<double>(steps - 1)) * step + end);
    return finished(values.to(options.dtype_or(DType::f32)), options);
  }
  return computed(steps, options, [&](std::int64_t i) {
    return 2 * i < steps ? start + static_cast<double>(i) * step
                         : end - static_cast<double>(steps - 1 - i) * step;
  });
}

Tensor eye(std::int64_t n, std::int64_t m, const TensorOptions& options) {
  const Tensor x = zeros(
      {n, m}, {.dtype = options.dtype, .device = options.device, .pin_memory = options.pin_memory});
  const NoGrad no_grad;
  const std::int64_t diagonal = std::min(n, m);
  if (diagonal > 0) x.as_strided({diagonal}, {m + 1}).fill_(1);
  return finished(x, options);
}

Tensor eye(std::int64_t n, const TensorOptions& options) { return eye(n, n, options); }

}  // namespace mezzo
