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
               const PackedPanel<T>& panel) {
  using S = Simd<T>;
  const std::int64_t whole = lanes / S::kWidth * S::kWidth;
  T* to = panel.data;
  for (std::int64_t step = 0; step < depth; ++step, x += step_stride, to += panel.step) {
    for (std::int64_t lane = 0; lane < whole; lane += S::kWidth)
      S::store(to + lane, S::load(x + lane));
    if (whole < panel.width)
      S::copy_first(x + whole, lanes - whole, to + whole, panel.width - whole);
  }
}

/** Packs steps that are contiguous in memory, into a panel of at most one vector: squares of lanes
 *  and steps are transposed in registers. Returns the number of steps done. */
template <class T, class X>
std::int64_t pack_squares(const X* x, std::int64_t lane_stride, std::int64_t lanes,
                          std::int64_t depth, const PackedPanel<T>& panel) {
  using S = Simd<T>;
  std::int64_t step = 0;
  for (; step + S::kWidth <= depth; step += S::kWidth) {
    typename S::V square[S::kWidth];
    MZ_UNROLL
    for (int lane = 0; lane < S::kWidth; ++lane)
      square[lane] = lane < lanes ? S::load(x + lane * lane_stride + step) : typename S::V{};
    S::transpose(square);
    T* to = panel.data + step * panel.step;
    if (panel.width == S::kWidth) {
      MZ_UNROLL
      for (int s = 0; s < S::kWidth; ++s) S::store(to + s * panel.step, square[s]);
    } else {
      MZ_UNROLL
      for (int s = 0; s < S::kWidth; ++s)
        S::store_first(to + s * panel.step, square[s], panel.width);
    }
  }
  return step;
}

template <class T, class X>
void pack_strided(const X* x, std::int64_t lane_stride, std::int64_t step_stride,
                  std::int64_t lanes, std::int64_t depth, const PackedPanel<T>& panel) {
  T* to = panel.data;
  for (std::int64_t step = 0; step < depth; ++step, x += step_stride, to += panel.step) {
    for (std::int64_t lane = 0; lane < lanes; ++lane) to[lane] = widen<T>(x[lane * lane_stride]);
    for (std::int64_t lane = lanes; lane < panel.width; ++lane) to[lane] = 0;
  }
}

template <class T, class X>
void pack(const X* x, std::int64_t lane_stride, std::int64_t step_stride, std::int64_t lanes,
          std::int64_t depth, const PackedPanel<T>& panel) {
  using S = Simd<T>;
  if (lane_stride == 1) return pack_rows(x, step_stride, lanes, depth, panel);
  if (step_stride != 1) return pack_strided(x, lane_stride, step_stride, lanes, depth, panel);
  for (std::int64_t lane = 0; lane < panel.width; lane += S::kWidth) {
    const std::int64_t valid = std::min<std::int64_t>(S::kWidth, lanes - lane);
    const std::int64_t stored = std::min<std::int64_t>(S::kWidth, panel.width - lane);
    const X* from = x + lane * lane_stride;
    const PackedPanel<T> vector{panel.data + lane, stored, panel.step};
    for (std::int64_t step = pack_squares(from, lane_stride, valid, depth, vector); step < depth;
         ++step)
      for (std::int64_t i = 0; i < stored; ++i)
        vector.data[step * panel.step + i] =
            i < valid ? widen<T>(from[i * lane_stride + step]) : T(0);
  }
}

}  // namespace

template <class T>
void pack_panel(const Matrix& x, std::int64_t lanes, std::int64_t depth,
                const PackedPanel<T>& panel) {
  const auto from = [&]<class X>(std::type_identity<X>) {
    pack(static_cast<const X*>(x.data), x.row, x.column, lanes, depth, panel);
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

template void pack_panel(const Matrix&, std::int64_t, std::int64_t, const PackedPanel<float>&);
template void pack_panel(const Matrix&, std::int64_t, std::int64_t, const PackedPanel<double>&);

#if defined(__AVX512BF16__)

namespace {

/** Vectors of 16 pairs. */
using Pairs = Simd<float>;

__mmask16 first_lanes(std::int64_t n) { return static_cast<__mmask16>((1u << n) - 1); }

/** Loads elements of bf16 as the low halves of 32-bit lanes; 0 in the lanes outside the mask. */
__m512i load_low(const BFloat16* x, __mmask16 lanes) {
  return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, x));
}
/** Rounds; subnormals become 0, as in the products. */
__m512i load_low(const float* x, __mmask16 lanes) {
  return _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(lanes, x)));
}

/** Returns the pairs {first[i], second[i]}; 0 in the lanes outside the mask. */
template <class X> Pairs::V interleave(const X* first, const X* second, __mmask16 lanes) {
  const __m512i high =
      second ? _mm512_slli_epi32(load_low(second, lanes), 16) : _mm512_setzero_si512();
  return (Pairs::V)_mm512_or_si512(load_low(first, lanes), high);
}

/** Writes the pairs {first[i], second[i]} for i < 32. */
void interleave_32(const BFloat16* first, const BFloat16* second, BFloat16Pair* to) {
  // Quarters of both vectors are interleaved in place; the outer quarters are then exchanged.
  const __m512i order = _mm512_set_epi64(7, 3, 6, 2, 5, 1, 4, 0);
  const __m512i a = _mm512_permutexvar_epi64(order, _mm512_loadu_si512(first)),
                b = _mm512_permutexvar_epi64(order, _mm512_loadu_si512(second));
  _mm512_storeu_si512(to, _mm512_unpacklo_epi16(a, b));
  _mm512_storeu_si512(to + Pairs::kWidth, _mm512_unpackhi_epi16(a, b));
}

/** Returns the pairs {x[2 i], x[2 i + 1]}. */
Pairs::V adjacent(const BFloat16* x) { return (Pairs::V)_mm512_loadu_si512(x); }
Pairs::V adjacent(const float* x) {
  return (Pairs::V)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + 16), _mm512_loadu_ps(x));
}

BFloat16Pair pair_of(const BFloat16* first, const BFloat16* second) {
  std::uint16_t low, high = 0;
  std::memcpy(&low, first, sizeof low);
  if (second) std::memcpy(&high, second, sizeof high);
  return {static_cast<std::uint32_t>(high) << 16 | low};
}
BFloat16Pair pair_of(const float* first, const float* second) {
  const BFloat16 low(*first), high(second ? *second : 0.0f);
  return pair_of(&low, &high);
}

/** The operands of pack_pairs. */
template <class X> struct PairSource {
  const X *first, *second;
  std::int64_t lane, step;  // strides

  const X* second_at(std::int64_t offset) const { return second ? second + offset : nullptr; }
};

/** Packs lanes that are contiguous in memory: groups of 32, then vectors. */
template <class X>
void pack_pair_rows(const PairSource<X>& x, std::int64_t lanes, std::int64_t steps,
                    const PackedPanel<BFloat16Pair>& panel) {
  std::int64_t lane = 0;
  if constexpr (std::is_same_v<X, BFloat16>)
    for (; x.second && lane + 2 * Pairs::kWidth <= lanes; lane += 2 * Pairs::kWidth)
      for (std::int64_t step = 0; step < steps; ++step) {
        const std::int64_t at = step * x.step + lane;
        interleave_32(x.first + at, x.second + at, panel.data + step * panel.step + lane);
      }
  for (; lane < panel.width; lane += Pairs::kWidth) {
    const __mmask16 valid = first_lanes(std::clamp<std::int64_t>(lanes - lane, 0, Pairs::kWidth)),
                    stored = first_lanes(std::min<std::int64_t>(panel.width - lane, Pairs::kWidth));
    for (std::int64_t step = 0; step < steps; ++step) {
      const std::int64_t at = step * x.step + lane;
      _mm512_mask_storeu_ps(panel.data + step * panel.step + lane, stored,
                            (__m512)interleave(x.first + at, x.second_at(at), valid));
    }
  }
}

/** Packs lanes whose steps are contiguous in memory, into a panel of at most one vector, a square
 *  of lanes and steps at a time. Returns the number of steps done. */
template <class X>
std::int64_t pack_pair_squares(const PairSource<X>& x, std::int64_t lanes, std::int64_t steps,
                               const PackedPanel<BFloat16Pair>& panel) {
  const bool are_adjacent = x.step == 2 && x.second == x.first + 1;
  if (x.step != 1 && !are_adjacent) return 0;
  std::int64_t step = 0;
  for (; step + Pairs::kWidth <= steps; step += Pairs::kWidth) {
    Pairs::V square[Pairs::kWidth];
    MZ_UNROLL
    for (int lane = 0; lane < Pairs::kWidth; ++lane) {
      const std::int64_t at = lane * x.lane + step * x.step;
      if (lane >= lanes)
        square[lane] = Pairs::V{};
      else if (are_adjacent)
        square[lane] = adjacent(x.first + at);
      else
        square[lane] = interleave(x.first + at, x.second_at(at), first_lanes(Pairs::kWidth));
    }
    Pairs::transpose(square);
    MZ_UNROLL
    for (int s = 0; s < Pairs::kWidth; ++s)
      Pairs::store_first(reinterpret_cast<float*>(panel.data + (step + s) * panel.step), square[s],
                         panel.width);
  }
  return step;
}

template <class X>
void pack_pairs_of(const PairSource<X>& x, std::int64_t lanes, std::int64_t steps,
                   const PackedPanel<BFloat16Pair>& panel) {
  if (x.lane == 1) return pack_pair_rows(x, lanes, steps, panel);
  for (std::int64_t lane = 0; lane < panel.width; lane += Pairs::kWidth) {
    const PairSource<X> from{x.first + lane * x.lane, x.second_at(lane * x.lane), x.lane, x.step};
    const std::int64_t valid = std::clamp<std::int64_t>(lanes - lane, 0, Pairs::kWidth);
    const std::int64_t stored = std::min<std::int64_t>(Pairs::kWidth, panel.width - lane);
    const PackedPanel<BFloat16Pair> vector{panel.data + lane, stored, panel.step};
    for (std::int64_t step = pack_pair_squares(from, valid, steps, vector); step < steps; ++step)
      for (std::int64_t i = 0; i < stored; ++i) {
        const std::int64_t at = i * x.lane + step * x.step;
        vector.data[step * panel.step + i] =
            i < valid ? pair_of(from.first + at, from.second_at(at)) : BFloat16Pair{0};
      }
  }
}

}  // namespace

void pack_pairs(const Matrix& first, const Matrix& second, std::int64_t lanes, std::int64_t steps,
                const PackedPanel<BFloat16Pair>& panel) {
  const auto from = [&]<class X>(std::type_identity<X>) {
    const PairSource<X> x{static_cast<const X*>(first.data), static_cast<const X*>(second.data),
                          first.row, first.column};
    pack_pairs_of(x, lanes, steps, panel);
  };
  first.dtype == DType::bf16 ? from(std::type_identity<BFloat16>{})
                             : from(std::type_identity<float>{});
}

template <>
void pack_panel(const Matrix& x, std::int64_t lanes, std::int64_t terms,
                const PackedPanel<BFloat16Pair>& panel) {
  const auto at = [&](std::int64_t term) {
    const auto item = static_cast<std::int64_t>(item_size(x.dtype));
    return Matrix{static_cast<const char*>(x.data) + term * x.column * item, x.dtype, x.row,
                  2 * x.column};
  };
  const std::int64_t whole = terms / 2;
  pack_pairs(at(0), at(1), lanes, whole, panel);
  if (terms % 2 == 1)
    pack_pairs(at(terms - 1), {nullptr, x.dtype}, lanes, 1,
               {panel.data + whole * panel.step, panel.width, panel.step});
}

#endif

}  // namespace mezzo::cpu_kernels
