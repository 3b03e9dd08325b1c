// Shared parts of the attention kernels: operands over a batch, scores with mask and dropout, and
// the two products of a tile of scores.
//
// A block of 16 x 16 threads works on a tile of scores, kOwn x kOwn of them per thread: rows r + 16
// i, columns c + 16 j. 16 neighbouring lanes share a row. Operands pass through shared memory in
// slices of 16 terms.
#pragma once

#include <limits>

#include "../../../tensor/math/math.h"
#include "../../../tensor/ops/attention/attention.h"
#include "../../../tensor/random/philox.h"
#include "../lines.h"

namespace mezzo::gpu {

inline constexpr int kSide = 16, kAttentionThreads = kSide * kSide, kSlice = 16;

/** Sizes of a block's tiles: scores kTile x kTile, results kTile x kColumns. */
template <class C, int kWide> struct AttentionTile {
  static constexpr int kOwn = sizeof(C) == 4 ? 4 : 2;
  static constexpr int kTile = kSide * kOwn, kOwnColumns = kOwn * kWide, kColumns = kTile * kWide;
  using Line = C[kTile + 1];  // avoids bank conflicts of stores
  using Wide = C[kColumns + 1];

  static std::int64_t tiles(std::int64_t n) { return (n + kTile - 1) / kTile; }
  /** Returns the number of column tiles, at least one, because the block of the first also writes
   *  the other results. */
  static std::int64_t column_tiles(std::int64_t n) {
    return n == 0 ? 1 : (n + kColumns - 1) / kColumns;
  }
};

/** A matrix for each batch entry, of any strides in elements; 0 where broadcast. Results are stored
 *  into such matrices, too. */
struct AttentionOperand {
  void* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t row = 0, column = 0;
  std::int64_t batch[Shape::kMaxRank] = {};

  AttentionOperand() = default;
  AttentionOperand(const Tensor& x, const Shape& shape) {
    if (!x.defined()) return;
    data = x.raw_data();
    dtype = x.dtype();
    // A mask may have fewer than two dimensions.
    const auto stride = [&](int from_last) {
      const int dim = x.dim() - 1 - from_last;
      return dim < 0 || x.shape()[dim] == 1 ? 0 : x.strides()[dim];
    };
    row = stride(1);
    column = stride(0);
    for (int i = 0; i < shape.rank(); ++i) batch[i] = stride(shape.rank() + 1 - i);
  }
  /** Returns the offset of the matrix of an entry of a batch with these sizes. */
  __device__ std::int64_t offset(std::int64_t entry, int rank, const std::int64_t* sizes) const {
    std::int64_t at = 0;
    for (int i = rank - 1; i >= 0; --i) {
      at += entry % sizes[i] * batch[i];
      entry /= sizes[i];
    }
    return at;
  }
  template <class C> __device__ C load(std::int64_t offset, std::int64_t i, std::int64_t j) const {
    return load_element<C>(data, dtype, offset + i * row + j * column);
  }
  template <class C>
  __device__ void store(std::int64_t offset, std::int64_t i, std::int64_t j, C value) const {
    store_element<C>(data, dtype, offset + i * row + j * column, value);
  }
};

/** The least number that a bf16 mask adds to a score, unless it is -inf. Lower ones are raised to
 *  it, because cuDNN computes softmax in powers of 2, whose exponents must be finite. */
inline constexpr float kLowestOfMask = -1e36f;

/** Returns a mask's number with this bound. */
template <class C> __device__ C bounded(C x) {
  constexpr C kLowest = static_cast<C>(kLowestOfMask);
  return x < kLowest && x > -std::numeric_limits<C>::infinity() ? kLowest : x;
}

struct AttentionCall {
  std::int64_t entries = 1, queries, keys, features, values;
  int rank;
  std::int64_t batch[Shape::kMaxRank] = {};
  AttentionOperand q, k, v, mask;
  bool is_causal, drops;
  double scale, kept;  // `kept`: the factor of probabilities that dropout keeps
  std::uint64_t threshold;
  PhiloxStream stream;

  AttentionCall(const Tensor& query, const Tensor& key, const Tensor& value,
                const Tensor& given_mask, const op::AttentionAttrs& attrs)
      : queries(query.size(-2)),
        keys(key.size(-2)),
        features(query.size(-1)),
        values(value.size(-1)),
        is_causal(attrs.is_causal),
        drops(attrs.dropout_p > 0),
        scale(attrs.scale),
        kept(attrs.dropout_p < 1 ? 1 / (1 - attrs.dropout_p) : 0),
        threshold(bernoulli_threshold(1 - attrs.dropout_p)),
        stream(attrs.stream) {
    const Shape sizes = op::attention_batch(query, key, value);
    rank = sizes.rank();
    for (int i = 0; i < rank; ++i) {
      batch[i] = sizes[i];
      entries *= sizes[i];
    }
    q = AttentionOperand(query, sizes);
    k = AttentionOperand(key, sizes);
    v = AttentionOperand(value, sizes);
    mask = AttentionOperand(given_mask, sizes);
  }
  __device__ std::int64_t offset(const AttentionOperand& x, std::int64_t entry) const {
    return x.offset(entry, rank, batch);
  }
  /** Returns the score of a query and a key from the product of their vectors; -inf for keys hidden
   *  by causality. The mask is not applied. */
  template <class C>
  __device__ C score_without_mask(C product, std::int64_t query, std::int64_t key) const {
    return is_causal && key > query ? -std::numeric_limits<C>::infinity()
                                    : product * static_cast<C>(scale);
  }
  /** Returns the score with the mask applied, if there is one. */
  template <class C>
  __device__ C score(C product, std::int64_t mask_offset, std::int64_t query,
                     std::int64_t key) const {
    const C score = score_without_mask(product, query, key);
    if (!mask.data) return score;
    const C value = mask.load<C>(mask_offset, query, key);
    if (mask.dtype == DType::boolean)
      return value == C(0) ? -std::numeric_limits<C>::infinity() : score;
    return score + (mask.dtype == DType::bf16 ? bounded(value) : value);
  }
  /** Returns true if dropout keeps a probability. */
  __device__ bool stays(std::int64_t entry, std::int64_t query, std::int64_t key) const {
    if (!drops) return true;
    const auto element = static_cast<std::uint64_t>((entry * queries + query) * keys + key);
    return bernoulli(philox_block(stream.resolved(), element / 4).word[element % 4], threshold);
  }
  /** Returns the factor that dropout applies to a probability. */
  template <class C>
  __device__ C factor(std::int64_t entry, std::int64_t query, std::int64_t key) const {
    if (!drops) return C(1);
    return stays(entry, query, key) ? static_cast<C>(kept) : C(0);
  }
};

/** The query and key of a score. */
struct ScorePlace {
  bool inside;
  std::int64_t query, key;
};

/** Applies the mask, if there is one, to the scores that a thread owns, and returns a bit per score
 *  that dropout keeps. Separate from the loops that hold scores in registers, and not unrolled,
 *  because few calls have a mask or dropout and both are long. */
template <class Own, class Place>
__device__ inline std::uint32_t prepare_scores(const AttentionCall& call, std::int64_t entry,
                                               std::int64_t mask_offset, const Own& own,
                                               float* scores, int pitch, const Place& place) {
  if (!call.mask.data && !call.drops) return ~std::uint32_t{0};
  std::uint32_t left = 0;
#pragma unroll 1
  for (int i = 0; i < Own::kCount; ++i) {
    const ScorePlace at = place(own.row(i), own.column(i));
    if (!at.inside) continue;
    float& score = scores[own.row(i) * pitch + own.column(i)];
    if (call.mask.data) score = call.score(score, mask_offset, at.query, at.key);
    if (call.stays(entry, at.query, at.key)) left |= std::uint32_t{1} << i;
  }
  return left;
}

/** Returns a score after prepare_scores. */
__device__ inline float prepared(const AttentionCall& call, float score, const ScorePlace& at) {
  return call.mask.data ? score : call.score_without_mask(score, at.query, at.key);
}

/** Returns true if the Tensor Core kernels support a call. The tiles of this header serve the
 *  others. */
bool tensor_cores_serve(const AttentionCall& call, DType dtype, Device device);
/** Computes attention on Tensor Cores, for a supported call. */
void attention_on_tensor_cores(const AttentionCall& call, const AttentionOperand& y,
                               Tensor& log_sums);

/** Returns true if the kernels of attention_quads.h support a call. */
bool quads_serve(const AttentionCall& call, DType dtype, Device device);
/** Computes attention of f32, for a supported call. */
void attention_in_quads(const AttentionCall& call, const AttentionOperand& y, Tensor& log_sums);

/** Operands of the gradients, beside those of the call: g, each query's logarithm and its sum of g
 *  y, and the gradient of the mask as a result. */
template <class C> struct AttentionGiven {
  AttentionOperand g;
  const C *log_sums, *offsets;
  Array dmask;
};
void attention_backward_on_tensor_cores(const AttentionCall& call,
                                        const AttentionGiven<float>& given,
                                        const AttentionOperand& dq, const AttentionOperand& dk,
                                        const AttentionOperand& dv, Device device);

/** Also sets the offsets, from the results y. */
void attention_backward_in_quads(const AttentionCall& call, const AttentionGiven<float>& given,
                                 const AttentionOperand& y, float* offsets,
                                 const AttentionOperand& dq, const AttentionOperand& dk,
                                 const AttentionOperand& dv, Device device);

/** Some rows of a matrix of one entry. */
struct MatrixRows {
  const AttentionOperand* x;
  std::int64_t offset, first, count;  // rows [first, count) exist

  template <class C> __device__ C load(std::int64_t i, std::int64_t column) const {
    return x->load<C>(offset, first + i, column);
  }
  __device__ bool has(std::int64_t i) const { return first + i < count; }
};

/** Adds the products of rows of `a` with rows of `b` over `terms` columns to sums[i][j]. The two
 *  tiles are shared memory; all threads must call it. */
template <class C, class T>
__device__ inline void add_row_products(C (&sums)[T::kOwn][T::kOwn], const MatrixRows& a,
                                        const MatrixRows& b, std::int64_t terms,
                                        typename T::Line* left, typename T::Line* right) {
  const int thread = static_cast<int>(threadIdx.x), row = thread / kSide, column = thread % kSide;
  for (std::int64_t first = 0; first < terms; first += kSlice) {
    __syncthreads();
#pragma unroll
    for (int l = 0; l < T::kOwn; ++l) {
      const int line = row + l * kSide;
      const bool inside = first + column < terms;
      left[column][line] = inside && a.has(line) ? a.load<C>(line, first + column) : C(0);
      right[column][line] = inside && b.has(line) ? b.load<C>(line, first + column) : C(0);
    }
    __syncthreads();
#pragma unroll
    for (int t = 0; t < kSlice; ++t)
#pragma unroll
      for (int i = 0; i < T::kOwn; ++i)
#pragma unroll
        for (int j = 0; j < T::kOwn; ++j)
          sums[i][j] = std::fma(left[t][row + i * kSide], right[t][column + j * kSide], sums[i][j]);
  }
}

/** Adds the rows of x, weighted with a tile's scores, to results[i][j], for columns from
 *  `first_column` on of `columns`. */
template <class C, class T>
__device__ inline void add_weighted_rows(C (&results)[T::kOwn][T::kOwnColumns],
                                         const typename T::Line* weights, const MatrixRows& x,
                                         std::int64_t first_column, std::int64_t columns,
                                         typename T::Wide* slice) {
  const int thread = static_cast<int>(threadIdx.x), row = thread / kSide, column = thread % kSide;
  for (int first = 0; first < T::kTile; first += kSlice) {
    if (!x.has(first)) break;
    __syncthreads();
    for (int l = thread; l < kSlice * T::kColumns; l += kAttentionThreads) {
      const int term = l / T::kColumns, at = l % T::kColumns;
      const bool inside = x.has(first + term) && first_column + at < columns;
      slice[term][at] = inside ? x.load<C>(first + term, first_column + at) : C(0);
    }
    __syncthreads();
#pragma unroll
    for (int t = 0; t < kSlice; ++t)
#pragma unroll
      for (int i = 0; i < T::kOwn; ++i) {
        const C weight = weights[row + i * kSide][first + t];
#pragma unroll
        for (int j = 0; j < T::kOwnColumns; ++j)
          results[i][j] = std::fma(weight, slice[t][column + j * kSide], results[i][j]);
      }
  }
}

/** Stores a block's results as rows of the matrix at `offset`. */
template <class C, class T>
__device__ inline void store_rows(const C (&results)[T::kOwn][T::kOwnColumns],
                                  const AttentionOperand& to, std::int64_t offset,
                                  std::int64_t first_row, std::int64_t end_row,
                                  std::int64_t first_column, std::int64_t columns) {
  const int thread = static_cast<int>(threadIdx.x), row = thread / kSide, column = thread % kSide;
#pragma unroll
  for (int i = 0; i < T::kOwn; ++i)
#pragma unroll
    for (int j = 0; j < T::kOwnColumns; ++j) {
      const std::int64_t r = first_row + row + i * kSide, c = first_column + column + j * kSide;
      if (r < end_row && c < columns) to.store<C>(offset, r, c, results[i][j]);
    }
}

/** Calls f with the tile type for results of this many columns and the compute type. */
template <class F> void visit_attention_tile(DType dtype, std::int64_t columns, F&& f) {
  visit_floating_compute(dtype, [&]<class C>(std::type_identity<C>) {
    if (columns > AttentionTile<C, 1>::kColumns)
      f(std::type_identity<AttentionTile<C, 2>>{}, std::type_identity<C>{});
    else
      f(std::type_identity<AttentionTile<C, 1>>{}, std::type_identity<C>{});
  });
}

}  // namespace mezzo::gpu
