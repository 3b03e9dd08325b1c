// Packing with vectors: contiguous lanes are copied; lanes that are contiguous along the depth are
// transposed in registers.
#include "gemm_pack.h"

#include <algorithm>

#include "simd.h"

namespace mezzo::cpu_kernels {

namespace {

template <class T, class X> T widen(X x) { return static_cast<T>(x); }

/** Packs lanes that are contiguous in memory: each step is a short copy. */
template <class T, class X>
void pack_rows(const X* x, std::int64_t step_stride, std::int64_t lanes, std::int64_t depth,
               std::int64_t width, T* panel) {
  using S = Simd<T>;
  const std::int64_t whole = lanes / S::kWidth * S::kWidth;
  for (std::int64_t step = 0; step < depth; ++step, x += step_stride, panel += width) {
    for (std::int64_t lane = 0; lane < whole; lane += S::kWidth)
      S::store(panel + lane, S::load(x + lane));
    if (whole < width) S::copy_first(x + whole, lanes - whole, panel + whole, width - whole);
  }
}

/** Packs steps that are contiguous in memory: squares of lanes and steps are transposed in
 *  registers. Returns the number of steps done. */
template <class T, class X>
std::int64_t pack_squares(const X* x, std::int64_t lane_stride, std::int64_t lanes,
                          std::int64_t depth, std::int64_t width, std::int64_t stored, T* panel) {
  using S = Simd<T>;
  std::int64_t step = 0;
  for (; step + S::kWidth <= depth; step += S::kWidth) {
    typename S::V square[S::kWidth];
    MZ_UNROLL
    for (int lane = 0; lane < S::kWidth; ++lane)
      square[lane] = lane < lanes ? S::load(x + lane * lane_stride + step) : typename S::V{};
    S::transpose(square);
    T* to = panel + step * width;
    if (stored == S::kWidth) {
      MZ_UNROLL
      for (int s = 0; s < S::kWidth; ++s) S::store(to + s * width, square[s]);
    } else {
      MZ_UNROLL
      for (int s = 0; s < S::kWidth; ++s) S::store_first(to + s * width, square[s], stored);
    }
  }
  return step;
}

template <class T, class X>
void pack_strided(const X* x, std::int64_t lane_stride, std::int64_t step_stride,
                  std::int64_t lanes, std::int64_t depth, std::int64_t width, T* panel) {
  for (std::int64_t step = 0; step < depth; ++step, x += step_stride, panel += width) {
    for (std::int64_t lane = 0; lane < lanes; ++lane) panel[lane] = widen<T>(x[lane * lane_stride]);
    for (std::int64_t lane = lanes; lane < width; ++lane) panel[lane] = 0;
  }
}

template <class T, class X>
void pack(const X* x, std::int64_t lane_stride, std::int64_t step_stride, std::int64_t lanes,
          std::int64_t depth, std::int64_t width, T* panel) {
  using S = Simd<T>;
  if (lane_stride == 1) return pack_rows(x, step_stride, lanes, depth, width, panel);
  if (step_stride != 1)
    return pack_strided(x, lane_stride, step_stride, lanes, depth, width, panel);
  for (std::int64_t lane = 0; lane < width; lane += S::kWidth) {
    const std::int64_t valid = std::min<std::int64_t>(S::kWidth, lanes - lane);
    const std::int64_t stored = std::min<std::int64_t>(S::kWidth, width - lane);
    const X* from = x + lane * lane_stride;
    T* to = panel + lane;
    for (std::int64_t step = pack_squares(from, lane_stride, valid, depth, width, stored, to);
         step < depth; ++step)
      for (std::int64_t i = 0; i < stored; ++i)
        to[step * width + i] = i < valid ? widen<T>(from[i * lane_stride + step]) : T(0);
  }
}

}  // namespace

template <class T>
void pack_panel(const Matrix& x, std::int64_t lanes, std::int64_t depth, std::int64_t width,
                T* panel) {
  const auto from = [&]<class X>(std::type_identity<X>) {
    pack(static_cast<const X*>(x.data), x.row, x.column, lanes, depth, width, panel);
  };
  if constexpr (std::is_same_v<T, double>)
    return from(std::type_identity<double>{});
  else if (x.dtype == DType::f16)
    return from(std::type_identity<Half>{});
  else if (x.dtype == DType::bf16)
    return from(std::type_identity<BFloat16>{});
  else
    return from(std::type_identity<float>{});
}

template void pack_panel(const Matrix&, std::int64_t, std::int64_t, std::int64_t, float*);
template void pack_panel(const Matrix&, std::int64_t, std::int64_t, std::int64_t, double*);

}  // namespace mezzo::cpu_kernels
