// Columns whose terms are adjacent in memory are dot products, several at a time. Other columns are
// read in place, or packed a few kilobytes at a time, which stay in the L1 cache. Packing a whole
// strip, as other products do, writes and reads the matrix once more.
#include "gemm_panels.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "gemm_pack.h"

namespace mezzo::cpu_kernels {

namespace {

// ---- terms adjacent in memory -------------------------------------------------------------------

/** Dot products of a packed row with columns of type X. */
template <class E, class X> struct Dots {
  using S = Simd<SumOf<E>>;
  using F = Factors<E>;
  using V = typename S::V;

  /** Every column has 64 bytes of partial sums; all of them take 8 vectors. */
  static constexpr int kParts = 64 / kVectorBytes, kColumns = 8 / kParts;
  /** Terms of a pass, one step for each partial sum. */
  static constexpr int kSteps = kParts * S::kWidth, kTerms = kSteps * F::kTerms;
  using Sums = V[kColumns][kParts];

  static V load(const X* x) {
    if constexpr (F::kTerms == 2)
      return F::load(reinterpret_cast<const E*>(x));
    else
      return S::load(x);
  }

  /** Adds the products of one pass. Column c begins at x + offsets[c]. */
  static void add(const E* row, const X* x, const std::int64_t (&offsets)[kColumns], Sums& sums) {
    MZ_UNROLL
    for (int p = 0; p < kParts; ++p) {
      const V factors = F::load(row + p * S::kWidth);
      MZ_UNROLL
      for (int c = 0; c < kColumns; ++c)
        sums[c][p] =
            F::add_products(factors, load(x + offsets[c] + p * S::kWidth * F::kTerms), sums[c][p]);
    }
  }

  /** As add, for the last `terms` terms, with zeros after them. */
  static void add_last(const E* row, const X* x, const std::int64_t (&offsets)[kColumns],
                       std::int64_t terms, Sums& sums) {
    E factors[kSteps] = {};
    X last[kColumns * kTerms] = {};
    std::int64_t copies[kColumns];
    std::copy_n(row, steps_of<E>(terms), factors);
    for (int c = 0; c < kColumns; ++c) {
      copies[c] = c * kTerms;
      std::copy_n(x + offsets[c], terms, last + copies[c]);
    }
    add(factors, last, copies, sums);
  }

  /** Returns {a0 + a1, b0 + b1} of the halves of runs of kRun lanes of a and b. */
  template <int kRun, int... kLane>
  static V add_halves(V a, V b, std::integer_sequence<int, kLane...>) {
    constexpr int kHalf = kRun / 2;
    constexpr auto source = [](int lane) { return lane / kHalf * kRun + lane % kHalf; };
    return __builtin_shufflevector(a, b, source(kLane)...) +
           __builtin_shufflevector(a, b, (source(kLane) + kHalf)...);
  }

  /** Adds halves of each column's partial sums until one sum is left; sums[c] of x[0] is that of
   *  column c. */
  template <int kRun, int kCount> static void fold(V* x) {
    if constexpr (kRun > 1) {
      constexpr int kLeft = kCount > 1 ? kCount / 2 : 1;
      for (int i = 0; i < kLeft; ++i)
        x[i] = add_halves<kRun>(x[kCount > 1 ? 2 * i : i], x[kCount > 1 ? 2 * i + 1 : i],
                                std::make_integer_sequence<int, S::kWidth>{});
      fold<kRun / 2, kLeft>(x);
    }
  }

  /** Computes the sums of kColumns columns, which are `stride` elements apart; those from `valid`
   *  on repeat the last valid one. */
  static void compute(const E* row, const X* x, std::int64_t stride, std::int64_t valid,
                      std::int64_t terms, SumOf<E>* to) {
    std::int64_t offsets[kColumns];
    for (int c = 0; c < kColumns; ++c) offsets[c] = std::min<std::int64_t>(c, valid - 1) * stride;
    Sums sums = {};
    std::int64_t term = 0;
    for (; term + kTerms <= terms; term += kTerms)
      add(row + term / F::kTerms, x + term, offsets, sums);
    if (term < terms) add_last(row + term / F::kTerms, x + term, offsets, terms - term, sums);
    V folded[kColumns];
    MZ_UNROLL
    for (int c = 0; c < kColumns; ++c) {
      MZ_UNROLL
      for (int half = kParts / 2; half > 0; half /= 2)
        for (int p = 0; p < half; ++p) sums[c][p] += sums[c][p + half];
      folded[c] = sums[c][0];
    }
    fold<S::kWidth, kColumns>(folded);
    S::store_first(to, folded[0], kColumns);
  }
};

template <class E, class X>
void compute_dots(const E* row, const Matrix& columns, std::int64_t count, std::int64_t terms,
                  SumOf<E>* sums) {
  using D = Dots<E, X>;
  const X* x = static_cast<const X*>(columns.data);
  for (std::int64_t at = 0; at < count; at += D::kColumns)
    D::compute(row, x + at * columns.row, columns.row, count - at, terms, sums + at);
}

template <class E>
void compute_dots(const E* row, const Matrix& columns, std::int64_t count, std::int64_t terms,
                  SumOf<E>* sums) {
  const auto of = [&]<class X>(std::type_identity<X>) {
    compute_dots<E, X>(row, columns, count, terms, sums);
  };
  if constexpr (std::is_same_v<E, double>)
    of(std::type_identity<double>{});
  else if constexpr (Factors<E>::kTerms == 2)
    of(std::type_identity<BFloat16>{});
  else if (columns.dtype == DType::f16)
    of(std::type_identity<Half>{});
  else if (columns.dtype == DType::bf16)
    of(std::type_identity<BFloat16>{});
  else
    of(std::type_identity<float>{});
}

// ---- other layouts ------------------------------------------------------------------------------

/** Partial sums of adjacent columns in the L1 cache: number p of column j is at [p][j]. */
template <class E> struct ColumnSums {
  using T = SumOf<E>;
  using S = Simd<T>;
  using F = Factors<E>;

  static constexpr int kSums = 64 / static_cast<int>(sizeof(T));
  static constexpr std::int64_t kMostLanes = 128;

  /** Adds the products of at most kSums steps. */
  void add(const E* row, std::int64_t steps, const BlockColumns<E>& columns) {
    for (std::int64_t step = 0; step < steps; ++step) {
      const typename F::V factor = F::splat(row + step);
      const E* column = columns.data + step * columns.step;
      for (std::int64_t lane = 0; lane < lanes; lane += S::kWidth)
        S::store(sums[step] + lane,
                 F::add_products(factor, F::load(column + lane), S::load(sums[step] + lane)));
    }
  }

  /** Adds the partial sums; those of number 0 are then the sums. */
  void fold() {
    for (int half = kSums / 2; half > 0; half /= 2)
      for (int p = 0; p < half; ++p)
        for (std::int64_t lane = 0; lane < lanes; ++lane) sums[p][lane] += sums[p + half][lane];
  }

  explicit ColumnSums(std::int64_t count) : lanes(count) {
    for (auto& of_step : sums) std::fill_n(of_step, lanes, T(0));
  }
  std::int64_t lanes;  // whole vectors
  alignas(kVectorBytes) T sums[kSums][kMostLanes];
};

/** Returns the elements from a position on, as panel elements that need no packing. */
template <class E>
BlockColumns<E> in_place(const Matrix& columns, std::int64_t lane, std::int64_t term) {
  return {static_cast<const E*>(from(columns, lane, term).data), columns.column};
}

template <class E>
void compute_lanes(const E* row, const Matrix& columns, std::int64_t count, std::int64_t terms,
                   SumOf<E>* to) {
  using C = ColumnSums<E>;
  constexpr std::int64_t kTerms = Factors<E>::kTerms;
  const bool readable = kTerms == 1 && columns.row == 1 && columns.dtype == dtype_of<SumOf<E>>();
  alignas(kVectorBytes) E packed[C::kSums * C::kMostLanes];
  for (std::int64_t lane = 0; lane < count; lane += C::kMostLanes) {
    const std::int64_t valid = std::min(C::kMostLanes, count - lane);
    C sums(RowSums<E>::whole(valid));
    for (std::int64_t term = 0; term < terms; term += C::kSums * kTerms) {
      const std::int64_t here = std::min(C::kSums * kTerms, terms - term);
      BlockColumns<E> block{packed, sums.lanes};
      if (readable && valid == sums.lanes)
        block = in_place<E>(columns, lane, term);
      else
        pack_panel(from(columns, lane, term), valid, here, PackedPanel<E>(packed, sums.lanes));
      sums.add(row + term / kTerms, steps_of<E>(here), block);
    }
    sums.fold();
    std::copy_n(sums.sums[0], sums.lanes, to + lane);
  }
}

}  // namespace

template <class E>
void RowSums<E>::compute(const E* row, const Matrix& columns, std::int64_t count,
                         std::int64_t terms, SumOf<E>* sums) {
  if (columns.column == 1 && columns.row != 1)
    compute_dots(row, columns, count, terms, sums);
  else
    compute_lanes(row, columns, count, terms, sums);
}

template struct RowSums<float>;
template struct RowSums<double>;
#if defined(__AVX512BF16__)
template struct RowSums<BFloat16Pair>;
#endif

}  // namespace mezzo::cpu_kernels
