#include "create.h"

#include <algorithm>
#include <cmath>

#include "../../tensor/call_name.h"
#include "../../tensor/text.h"
#include "../grad_mode.h"
#include "operators.h"
#include "reduce.h"
#include "selection.h"

namespace mezzo {

namespace {
Tensor finished(const Tensor& x, const TensorOptions& options) {
  if (options.requires_grad) x.requires_grad_();
  return x;
}

/** 0, 1, 2, ... in f64, counted on the device itself: nothing comes from the host, so that captured steps count too. */
Tensor counted(std::int64_t n, Device device) {
  return (cumsum(ones({n}, {.dtype = DType::i64, .device = device}), 0) - 1).to(DType::f64);
}

}  // namespace

Tensor empty(const Shape& shape, const TensorOptions& options) {
  return finished(empty_tensor(shape, options.dtype, options.device, options.pin_memory), options);
}

Tensor full(const Shape& shape, double value, const TensorOptions& options) {
  const NoGrad no_grad;
  const Tensor x = empty_tensor(shape, options.dtype, options.device, options.pin_memory);
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
  if (checked_numel(shape, "tensor") != static_cast<std::int64_t>(values.size()))
    fail<ShapeError>("tensor", {.what = "number of values does not fit the shape",
                                .got = str(values.size(), " values for ", shape)});
  const CallName called("tensor");
  const NoGrad no_grad;
  const CastScope no_casts(nullptr);
  Tensor x = empty_tensor(shape, DType::f64, cpu);
  for (std::size_t i = 0; i < values.size(); ++i) x.data<double>()[i] = values[i];
  x = x.to(options.dtype).to(options.device);
  return finished(options.pin_memory ? x.pin_memory() : x, options);
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

Tensor arange(double start, double end, double step, const TensorOptions& options) {
  const double count = std::ceil((end - start) / step);
  if (step == 0 || !std::isfinite(count) || count < 0)
    fail<ValueError>("arange", {.what = "the step does not lead to the end",
                                .got = str("from ", start, " to ", end, " by ", step),
                                .expected = "a finite number of steps"});
  const CallName called("arange");
  const auto n = static_cast<std::int64_t>(count);
  if (options.device != cpu)
    return finished((counted(n, options.device) * step + start).to(options.dtype), options);
  std::vector<double> values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(start + static_cast<double>(i) * step);
  return tensor(values, options);
}

Tensor arange(double end, const TensorOptions& options) { return arange(0, end, 1, options); }

Tensor linspace(double start, double end, std::int64_t steps, const TensorOptions& options) {
  if (steps < 0)
    fail<ValueError>("linspace",
                     {.what = "negative number of steps", .got = str(steps), .expected = "steps >= 0"});
  const CallName called("linspace");
  // Counted from the nearer end, so that both ends are exact.
  const double step = steps > 1 ? (end - start) / static_cast<double>(steps - 1) : 0;
  if (options.device != cpu) {
    const Tensor i = counted(steps, options.device);
    const Tensor values = where(i * 2 < static_cast<double>(steps), i * step + start,
                                (i - static_cast<double>(steps - 1)) * step + end);
    return finished(values.to(options.dtype), options);
  }
  std::vector<double> values;
  for (std::int64_t i = 0; i < steps; ++i)
    values.push_back(2 * i < steps ? start + static_cast<double>(i) * step
                                   : end - static_cast<double>(steps - 1 - i) * step);
  return tensor(values, options);
}

Tensor eye(std::int64_t n, std::int64_t m, const TensorOptions& options) {
  const Tensor x =
      zeros({n, m}, {.dtype = options.dtype, .device = options.device, .pin_memory = options.pin_memory});
  const NoGrad no_grad;
  const std::int64_t diagonal = std::min(n, m);
  if (diagonal > 0) x.as_strided({diagonal}, {m + 1}).fill_(1);
  return finished(x, options);
}

Tensor eye(std::int64_t n, const TensorOptions& options) { return eye(n, n, options); }

}  // namespace mezzo
