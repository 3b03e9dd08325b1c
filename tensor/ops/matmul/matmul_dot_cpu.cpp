// Kernels of the inner products. Long vectors are summed in fixed chunks, whose partial sums are
// combined pairwise.
#include "../../core/compute_type.h"
#include "../../core/dispatch.h"
#include "../../core/row_major.h"
#include "../../cpu/convert.h"
#include "../../cpu/simd.h"
#include "../../cpu/workspace.h"
#include "../../device/parallel.h"
#include "../elementwise/formula.h"
#include "matmul.h"

namespace mezzo::op {

namespace {

using cpu_kernels::Simd;

/** Returns the sum of products of n contiguous elements: a fixed number of chains, which are then
 *  summed in order. */
template <class T, class X> T dot_run(const X* x, const X* y, std::int64_t n) {
  using S = Simd<T>;
  constexpr int kChains = 4, kStep = kChains * S::kWidth;
  typename S::V sums[kChains] = {};
  std::int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    MZ_UNROLL
    for (int c = 0; c < kChains; ++c)
      sums[c] = S::fma(S::load(x + i + c * S::kWidth), S::load(y + i + c * S::kWidth), sums[c]);
  }
  const typename S::V all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  T total = 0;
  for (int lane = 0; lane < S::kWidth; ++lane) total += all[lane];
  for (; i < n; ++i) total += static_cast<T>(x[i]) * static_cast<T>(y[i]);
  return total;
}

/** Returns the sum of products modulo 2^64. */
std::int64_t integer_dot(const std::int64_t* x, const std::int64_t* y, std::int64_t n) {
  std::int64_t total = 0;
  for (std::int64_t i = 0; i < n; ++i) total = plus(total, times(x[i], y[i]));
  return total;
}

/** Elements per partial sum. */
constexpr std::int64_t kChunk = 4 * kReductionChunk;

template <class T, class X> T dot(const X* x, const X* y, std::int64_t n) {
  if (n <= kChunk) return dot_run<T>(x, y, n);
  std::int64_t count = (n + kChunk - 1) / kChunk;
  const cpu_kernels::Workspace<T> partials(count);
  T* sums = partials.data();
  parallel_chunks(
      n, kChunk,
      [&](std::int64_t begin, std::int64_t end) {
        sums[begin / kChunk] = dot_run<T>(x + begin, y + begin, end - begin);
      },
      0.1);
  for (; count > 1; count = (count + 1) / 2)
    for (std::int64_t i = 0; i < count / 2; ++i) {
      sums[i] = sums[2 * i] + sums[2 * i + 1];
      if (count % 2 != 0 && i == count / 2 - 1) sums[i + 1] = sums[count - 1];
    }
  return sums[0];
}

/** Returns the operand with a contiguous last dimension, detached. */
Tensor with_dense_rows(const Tensor& x) {
  return x.strides().back() == 1 || x.shape().back() == 1 ? x : row_major(x);
}

/** Returns the strides between the rows of an operand, over the result's dimensions. */
Strides row_strides(const Tensor& x, const Shape& result) {
  Strides strides = Strides::filled(result.rank(), 0);
  const int lead = result.rank() - (x.dim() - 1);
  for (int i = 0; i < x.dim() - 1; ++i)
    if (x.shape()[i] != 1) strides[lead + i] = x.strides()[i];
  return strides;
}

}  // namespace

void Dot::cpu(Inputs in, Outputs out, const NoAttrs&) {
  const CastScope no_casts(nullptr);
  const DType compute = compute_dtype(out[0].dtype());
  const Tensor x = in[0].detach().to(compute).contiguous(),
               y = in[1].detach().to(compute).contiguous();
  if (compute == DType::i64) {
    const std::int64_t sum = integer_dot(x.data<std::int64_t>(), y.data<std::int64_t>(), x.numel());
    return cpu_kernels::convert(compute, &sum, out[0].dtype(), out[0].raw_data(), 1);
  }
  visit_floating_compute(compute, [&]<class T>(std::type_identity<T>) {
    const T sum = dot<T>(x.data<T>(), y.data<T>(), x.numel());
    cpu_kernels::convert(compute, &sum, out[0].dtype(), out[0].raw_data(), 1);
  });
}

void Vecdot::cpu(Inputs in, Outputs out, const NoAttrs&) {
  const CastScope no_casts(nullptr);
  const bool integers = is_integer(out[0].dtype());
  const auto rows_of = [&](const Tensor& x) {
    return with_dense_rows(integers ? x.to(DType::i64) : x);
  };
  const Tensor x = rows_of(in[0]), y = rows_of(in[1]);
  const Shape& result = out[0].shape();
  const Strides xs = row_strides(x, result), ys = row_strides(y, result);
  const std::int64_t n = x.shape().back();
  const auto for_each_row = [&](auto&& row) {
    const auto at = [&](std::int64_t index) {
      std::int64_t rest = index, at_x = 0, at_y = 0;
      for (int i = result.rank() - 1; i >= 0; --i) {
        at_x += rest % result[i] * xs[i];
        at_y += rest % result[i] * ys[i];
        rest /= result[i];
      }
      row(index, at_x, at_y);
    };
    parallel_for(out[0].numel(), at,
                 static_cast<double>(out[0].numel()) * static_cast<double>(n) * 0.1);
  };
  if (integers) {
    const std::int64_t *from_x = x.data<std::int64_t>(), *from_y = y.data<std::int64_t>();
    return for_each_row([&](std::int64_t index, std::int64_t at_x, std::int64_t at_y) {
      const std::int64_t sum = integer_dot(from_x + at_x, from_y + at_y, n);
      const auto bytes = index * static_cast<std::int64_t>(item_size(out[0].dtype()));
      cpu_kernels::convert(DType::i64, &sum, out[0].dtype(),
                           static_cast<char*>(out[0].raw_data()) + bytes, 1);
    });
  }
  visit_floating(out[0].dtype(), [&]<class X>(std::type_identity<X>) {
    using T = ComputeOf<X>;
    X* to = out[0].data<X>();
    for_each_row([&](std::int64_t index, std::int64_t at_x, std::int64_t at_y) {
      to[index] = static_cast<X>(dot<T>(x.data<X>() + at_x, y.data<X>() + at_y, n));
    });
  });
}

}  // namespace mezzo::op
