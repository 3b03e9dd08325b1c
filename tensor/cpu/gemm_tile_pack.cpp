// Packing of lines: squares of 16 lanes and 32 terms, whose pairs are transposed in registers where
// the operand's layout is not that of the tile.
#include <algorithm>
#include <cstring>

#include "../device/cpu_isa.h"
#include "gemm_tile.h"

#if defined(__AVX512BF16__)

namespace mezzo::cpu_kernels {

namespace {

using Pairs = Simd<float>;  // 16 pairs
constexpr int kLanes = Pairs::kWidth;

/** Number of bf16 numbers whose sum is a factor. */
template <class E> constexpr int kParts = sizeof(E) / sizeof(BFloat16Line);

/** Returns part `kPart` of 16 factors, in the low halves of the lanes. */
template <int kPart> __m512i part_of(const BFloat16* x) {
  return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)));
}
template <int kPart> __m512i part_of(const float* x) {
  return _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(x)));
}
template <int kPart> __m512i part_of(const Half* x) {
  const auto wide = (__m512)Pairs::load(x);
  const __m512i high = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(wide));
  if constexpr (kPart == 0) return high;
  const __m512 rest = wide - (__m512)_mm512_slli_epi32(high, 16);
  return _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(rest));
}

/** Returns the pairs {first[i], second[i]}. */
template <int kPart, class X> Pairs::V pairs_of(const X* first, const X* second) {
  return (Pairs::V)_mm512_or_si512(part_of<kPart>(first),
                                   _mm512_slli_epi32(part_of<kPart>(second), 16));
}

/** Returns the pairs {x[2 i], x[2 i + 1]}: a line. */
template <int kPart> Pairs::V line_of(const BFloat16* x) { return (Pairs::V)_mm512_loadu_si512(x); }
template <int kPart> Pairs::V line_of(const float* x) {
  return (Pairs::V)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + kLanes), _mm512_loadu_ps(x));
}
template <int kPart> Pairs::V line_of(const Half* x) {
  const auto low = (__m512)Pairs::load(x), high = (__m512)Pairs::load(x + kLanes);
  const __m512bh rounded = _mm512_cvtne2ps_pbh(high, low);
  if constexpr (kPart == 0) return (Pairs::V)rounded;
  const auto rest = [](__m512 wide, __m256i of_bf16) {
    return wide - (__m512)_mm512_slli_epi32(_mm512_cvtepu16_epi32(of_bf16), 16);
  };
  const auto halves = (__m512i)rounded;
  return (Pairs::V)_mm512_cvtne2ps_pbh(rest(high, _mm512_extracti64x4_epi64(halves, 1)),
                                       rest(low, _mm512_castsi512_si256(halves)));
}

/** A square of the operand, with all its lanes and terms. One of the strides is 1. */
template <class X> struct Square {
  const X* data;
  std::int64_t lane, term;  // strides

  /** Sets v to the lines of `lanes` lanes, or to the rows of pairs of terms. */
  template <int kPart> void load_lines(Pairs::V (&v)[kLanes]) const {
    MZ_UNROLL
    for (int i = 0; i < kLanes; ++i) v[i] = line_of<kPart>(data + i * lane);
  }
  template <int kPart> void load_pairs(Pairs::V (&v)[kLanes]) const {
    MZ_UNROLL
    for (int i = 0; i < kLanes; ++i)
      v[i] = pairs_of<kPart>(data + 2 * i * term, data + (2 * i + 1) * term);
  }
};

void store_pairs(const Pairs::V& v, BFloat16* to) { std::memcpy(to, &v, sizeof v); }

/** Writes a part of the lines of a square. */
template <class E, int kPart, class X>
void pack_lines(const Square<X>& x, std::int64_t lanes, E* to) {
  Pairs::V v[kLanes];
  if (x.term == 1) {
    x.template load_lines<kPart>(v);
  } else {
    x.template load_pairs<kPart>(v);
    Pairs::transpose(v);
  }
  BFloat16* first = reinterpret_cast<BFloat16*>(to) + kPart * kLineTerms;
  constexpr std::int64_t kStep = kParts<E> * kLineTerms;
  if (lanes == kLanes) {
    MZ_UNROLL
    for (int i = 0; i < kLanes; ++i) store_pairs(v[i], first + i * kStep);
  } else {
    for (int i = 0; i < lanes; ++i) store_pairs(v[i], first + i * kStep);
  }
}

/** Writes a part of the tile whose columns are the lanes of a square. */
template <class E, int kPart, class X> void pack_tile(const Square<X>& x, E* to) {
  Pairs::V v[kLanes];
  if (x.lane == 1) {
    x.template load_pairs<kPart>(v);
  } else {
    x.template load_lines<kPart>(v);
    Pairs::transpose(v);
  }
  BFloat16* tile = reinterpret_cast<BFloat16*>(to) + kPart * kLanes * kLineTerms;
  MZ_UNROLL
  for (int i = 0; i < kLanes; ++i) store_pairs(v[i], tile + i * kLineTerms);
}

/** Prefetches the next squares of the same lanes: the rows of the operand are often a page apart,
 *  which the CPU's own prefetching does not handle. */
template <class X> void prefetch_square(const Square<X>& x) {
  if (x.term == 1)
    for (int i = 0; i < kLanes; ++i)
      __builtin_prefetch(x.data + i * x.lane + 256 / static_cast<int>(sizeof(X)));
  else
    for (int i = 0; i < kLineTerms; ++i)
      __builtin_prefetch(x.data + (kLineTerms + i) * x.term, 0, 2);
}

/** Writes the tiles of 32 columns that are adjacent in memory. */
void pack_adjacent_columns(const BFloat16* x, std::int64_t term, BFloat16Line* to) {
  // Quarters of both rows of a pair are interleaved in place; the outer quarters are then
  // exchanged.
  const __m512i order = _mm512_set_epi64(7, 3, 6, 2, 5, 1, 4, 0);
  for (int pair = 0; pair < kLanes; ++pair, x += 2 * term) {
    __builtin_prefetch(x + kLineTerms * term, 0, 2);
    __builtin_prefetch(x + (kLineTerms + 1) * term, 0, 2);
    const __m512i a = _mm512_permutexvar_epi64(order, _mm512_loadu_si512(x)),
                  b = _mm512_permutexvar_epi64(order, _mm512_loadu_si512(x + term));
    _mm512_store_si512(to + pair, _mm512_unpacklo_epi16(a, b));
    _mm512_store_si512(to + kLanes + pair, _mm512_unpackhi_epi16(a, b));
  }
}

/** Calls pack(square, lanes, step, first lane) for all squares of the operand from a step on. Those
 *  that are cut off, or of which neither stride is 1, are copied first. */
template <class X, class Pack>
void for_each_square(const Matrix& x, std::int64_t first_step, std::int64_t lanes,
                     std::int64_t width, std::int64_t terms, Pack pack) {
  const X* data = static_cast<const X*>(x.data);
  alignas(64) X copy[kLanes][kLineTerms];
  for (std::int64_t step = first_step, term = step * kLineTerms; term < terms;
       ++step, term += kLineTerms)
    for (std::int64_t lane = 0; lane < width; lane += kLanes) {
      const std::int64_t valid = std::clamp<std::int64_t>(lanes - lane, 0, kLanes),
                         count = std::min<std::int64_t>(terms - term, kLineTerms);
      const X* from = data + lane * x.row + term * x.column;
      if (valid == kLanes && count == kLineTerms && (x.row == 1 || x.column == 1)) {
        const Square<X> square{from, x.row, x.column};
        prefetch_square(square);
        pack(square, kLanes, step, lane);
        continue;
      }
      std::memset(copy, 0, sizeof copy);
      for (std::int64_t i = 0; i < valid; ++i)
        if (x.column == 1)
          std::memcpy(copy[i], from + i * x.row, static_cast<std::size_t>(count) * sizeof(X));
        else
          for (std::int64_t t = 0; t < count; ++t) copy[i][t] = from[i * x.row + t * x.column];
      pack(Square<X>{copy[0], kLineTerms, 1}, std::min<std::int64_t>(width - lane, kLanes), step,
           lane);
    }
}

/** Writes the line of `terms` adjacent terms. */
template <class E, class X> void pack_line(const X* x, std::int64_t terms, E* to) {
  alignas(64) X copy[kLineTerms];
  if (terms < kLineTerms) {
    std::memset(copy, 0, sizeof copy);
    std::memcpy(copy, x, static_cast<std::size_t>(terms) * sizeof(X));
    x = copy;
  }
  BFloat16* line = reinterpret_cast<BFloat16*>(to);
  store_pairs(line_of<0>(x), line);
  if constexpr (kParts<E> == 2) store_pairs(line_of<1>(x), line + kLineTerms);
}

template <class E, class X>
void pack_rows_of(const Matrix& x, std::int64_t lanes, std::int64_t terms,
                  const PackedPanel<E>& panel) {
  if (x.column == 1) {
    const X* data = static_cast<const X*>(x.data);
    for (std::int64_t lane = 0; lane < lanes; ++lane)
      for (std::int64_t term = 0, step = 0; term < terms; term += kLineTerms, ++step)
        pack_line(data + lane * x.row + term, std::min<std::int64_t>(terms - term, kLineTerms),
                  panel.data + step * panel.step + lane);
    return;
  }
  for_each_square<X>(
      x, 0, lanes, panel.width, terms,
      [&](const Square<X>& square, std::int64_t count, std::int64_t step, std::int64_t lane) {
        E* to = panel.data + step * panel.step + lane;
        pack_lines<E, 0>(square, count, to);
        if constexpr (kParts<E> == 2) pack_lines<E, 1>(square, count, to);
      });
}

template <class E, class X>
void pack_columns_of(const Matrix& x, std::int64_t lanes, std::int64_t terms,
                     const PackedPanel<E>& panel) {
  std::int64_t done = 0;  // steps
  if constexpr (std::is_same_v<E, BFloat16Line> && std::is_same_v<X, BFloat16>)
    if (x.row == 1 && lanes == 2 * kLanes && panel.width == lanes)
      for (; (done + 1) * kLineTerms <= terms; ++done)
        pack_adjacent_columns(static_cast<const X*>(x.data) + done * kLineTerms * x.column,
                              x.column, panel.data + done * panel.step);
  if (done > 0 && done * kLineTerms >= terms) return;
  for_each_square<X>(
      x, done, lanes, panel.width, terms,
      [&](const Square<X>& square, std::int64_t, std::int64_t step, std::int64_t lane) {
        E* to = panel.data + step * panel.step + lane;
        pack_tile<E, 0>(square, to);
        if constexpr (kParts<E> == 2) pack_tile<E, 1>(square, to);
      });
}

/** Returns whether n adjacent numbers of f16 are finite. */
bool are_finite(const Half* x, std::int64_t n) {
  const __m512i exponent = _mm512_set1_epi16(0x7C00);
  for (std::int64_t i = 0; i < n; i += 2 * kLanes) {
    const std::int64_t count = std::min<std::int64_t>(n - i, 2 * kLanes);
    const auto valid = static_cast<__mmask32>((std::uint64_t{1} << count) - 1);
    const __m512i bits = _mm512_and_si512(_mm512_maskz_loadu_epi16(valid, x + i), exponent);
    if (_mm512_cmpeq_epi16_mask(bits, exponent) != 0) return false;
  }
  return true;
}

}  // namespace

bool multiplies_half_by_parts() { return product_isa() == CpuIsa::v4_amx && !exact_products(); }

bool is_finite(const Matrix& x, std::int64_t rows, std::int64_t columns) {
  if (x.column != 1 && x.row == 1) return is_finite(x.transposed(), columns, rows);
  const Half* data = static_cast<const Half*>(x.data);
  if (x.column == 1 && x.row == columns) return are_finite(data, rows * columns);
  for (std::int64_t i = 0; i < (x.row == 0 ? std::min<std::int64_t>(rows, 1) : rows); ++i) {
    const Half* row = data + i * x.row;
    if (x.column == 1) {
      if (!are_finite(row, columns)) return false;
      continue;
    }
    for (std::int64_t j = 0; j < columns; ++j)
      if (!are_finite(row + j * x.column, 1)) return false;
  }
  return true;
}

template <>
void pack_row_panel(const Matrix& x, std::int64_t lanes, std::int64_t terms,
                    const PackedPanel<BFloat16Line>& panel) {
  x.dtype == DType::bf16 ? pack_rows_of<BFloat16Line, BFloat16>(x, lanes, terms, panel)
                         : pack_rows_of<BFloat16Line, float>(x, lanes, terms, panel);
}
template <>
void pack_column_panel(const Matrix& x, std::int64_t lanes, std::int64_t terms,
                       const PackedPanel<BFloat16Line>& panel) {
  x.dtype == DType::bf16 ? pack_columns_of<BFloat16Line, BFloat16>(x, lanes, terms, panel)
                         : pack_columns_of<BFloat16Line, float>(x, lanes, terms, panel);
}
template <>
void pack_row_panel(const Matrix& x, std::int64_t lanes, std::int64_t terms,
                    const PackedPanel<HalfLine>& panel) {
  pack_rows_of<HalfLine, Half>(x, lanes, terms, panel);
}
template <>
void pack_column_panel(const Matrix& x, std::int64_t lanes, std::int64_t terms,
                       const PackedPanel<HalfLine>& panel) {
  pack_columns_of<HalfLine, Half>(x, lanes, terms, panel);
}

}  // namespace mezzo::cpu_kernels

#endif
