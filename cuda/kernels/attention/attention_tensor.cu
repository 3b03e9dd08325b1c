// The CUDA kernel of attention on Tensor Cores. As in attention.cu, it iterates over tiles of keys.
// A warp owns 16 queries and their state.
#include "attention_tensor.h"

namespace mezzo::gpu {

namespace {

/** Sizes of a block's tiles, for rows of up to kWidth elements. */
template <int kWidth> struct ForwardTile {
  static constexpr int kQueries = kTensorWarps * kPatch, kKeys = kWidth > 64 ? 32 : 64,
                       kPatches = kKeys / kPatch;
  // Lines begin 4 banks apart, so that eight of them have no bank conflict.
  static constexpr int kPitch = kWidth + 8, kScorePitch = kKeys + 4;
};

/** Return the maximum, and the sum, over the four lanes of a row. */
__device__ inline float quad_max(float x) {
  for (int step = 2; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(kAllLanes, x, step);
    x = other > x ? other : x;
  }
  return x;
}
__device__ inline float quad_sum(float x) {
  for (int step = 2; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}

/** State of a row; the same in the row's four lanes. */
struct RowState {
  float max = -std::numeric_limits<float>::infinity(), sum = 0;
};

/** A warp's queries and its rows of the scores. */
template <class T, int kWidth> struct Strip {
  using Tile = ForwardTile<kWidth>;
  static constexpr float kHidden = -std::numeric_limits<float>::infinity();
  static constexpr int kWeightsPitch = 2 * Tile::kScorePitch;
  const AttentionCall& call;
  std::int64_t entry, mask_offset, first_query;
  float* scores;   // 16 rows; reused for the two parts of the weights
  float* factors;  // 16
  using Own = LaneScores<Tile::kKeys>;
  Own own = {};
  RowState state[2] = {};

  __device__ T* weights() const { return reinterpret_cast<T*>(scores); }

  /** Converts the scores of keys [first_key, first_key + 16 patches) into weights, and sets the
   *  factors that earlier results must be multiplied by. */
  __device__ void take(std::int64_t first_key, int patches) {
    const auto place = [&](int row, int column) {
      const std::int64_t query = first_query + row, key = first_key + column;
      return ScorePlace{column < patches * kPatch && query < call.queries && key < call.keys, query,
                        key};
    };
    const std::uint32_t left =
        prepare_scores(call, entry, mask_offset, own, scores, Tile::kScorePitch, place);
    float score[Own::kCount];
#pragma unroll
    for (int i = 0; i < Own::kCount; ++i) {
      const ScorePlace at = place(own.row(i), own.column(i));
      score[i] = at.inside
                     ? prepared(call, scores[own.row(i) * Tile::kScorePitch + own.column(i)], at)
                     : kHidden;
    }
    __syncwarp();  // all scores have been read
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const RowState before = state[half];
      float top = before.max;
#pragma unroll
      for (int j = 0; j < Own::kInRow; ++j) {
        const float other = score[half * Own::kInRow + j];
        top = other > top ? other : top;
      }
      top = quad_max(top);
      const float shift = top == kHidden ? 0.0f : top, factor = math::exp(before.max - shift);
      float part = 0;
#pragma unroll
      for (int j = 0; j < Own::kInRow; ++j) {
        const int i = half * Own::kInRow + j;
        if (own.column(i) >= patches * kPatch) continue;
        const float p = math::exp(score[i] - shift);
        part += p;
        T* const at = weights() + own.row(i) * kWeightsPitch + own.column(i);
        store_split(at, at + Tile::kKeys, p * (left >> i & 1 ? kProbabilityUnits<T> : 0.0f));
      }
      state[half] = {top, before.sum * factor + quad_sum(part)};
      if (own.first_column == 0) factors[own.row(half * Own::kInRow)] = factor;
    }
    __syncwarp();
  }
};

template <class T, int kWidth>
__global__ void __launch_bounds__(kTensorThreads)
    attention_kernel(const AttentionCall __grid_constant__ call,
                     const TileOperand __grid_constant__ q, const TileOperand __grid_constant__ k,
                     const TileOperand __grid_constant__ v, std::int64_t query_tiles,
                     const TileResult __grid_constant__ y, float* log_sums) {
  if constexpr (kHasTensorCores<T>) {
    using Tile = ForwardTile<kWidth>;
    constexpr int kPitch = Tile::kPitch;
    MZ_SHARED(SharedPiece, query_room, shared_pieces<T>(Tile::kQueries, kPitch));
    MZ_SHARED(SharedPiece, key_room, shared_pieces<T>(Tile::kKeys, kPitch));
    MZ_SHARED(SharedPiece, value_room, shared_pieces<T>(Tile::kKeys, kPitch));
    MZ_SHARED(SharedPiece, score_room, shared_pieces<float>(Tile::kQueries, Tile::kScorePitch));
    MZ_SHARED(float, factors, Tile::kQueries);
    T* const queries = reinterpret_cast<T*>(query_room);
    T* const keys = reinterpret_cast<T*>(key_room);
    T* const values = reinterpret_cast<T*>(value_room);
    const std::int64_t first_query = blockIdx.x % query_tiles * Tile::kQueries,
                       entry = blockIdx.x / query_tiles;
    const std::int64_t key_offset = call.offset(k.x, entry), value_offset = call.offset(v.x, entry);
    const int thread = static_cast<int>(threadIdx.x), warp = thread / kWarpSize;
    const int depth = patches_in(call.features), columns = patches_in(call.values);
    using Queries = Strip<T, kWidth>;
    Queries strip{
        .call = call,
        .entry = entry,
        .mask_offset = call.offset(call.mask, entry),
        .first_query = first_query + warp * kPatch,
        .scores = reinterpret_cast<float*>(score_room) + warp * kPatch * Tile::kScorePitch,
        .factors = factors + warp * kPatch};
    SumPatch results[kWidth / kPatch];

    // Returns the end of the keys visible to queries before `end_query`.
    const auto seen_before = [&](std::int64_t end_query) {
      return call.is_causal && end_query < call.keys ? end_query : call.keys;
    };
    const std::int64_t visible = seen_before(first_query + Tile::kQueries);
    const std::int64_t strip_visible =
        strip.first_query < call.queries ? seen_before(strip.first_query + kPatch) : 0;
    q.load_tile(call.offset(q.x, entry), first_query, Tile::kQueries, queries, kPitch);
    for (std::int64_t first_key = 0; first_key < visible; first_key += Tile::kKeys) {
      __syncthreads();  // the previous keys and values are no longer needed
      k.load_tile(key_offset, first_key, Tile::kKeys, keys, kPitch);
      v.load_tile(value_offset, first_key, Tile::kKeys, values, kPitch);
      __syncthreads();
      const std::int64_t left = strip_visible - first_key;
      if (left <= 0) continue;
      const int patches = left < Tile::kKeys ? patches_in(left) : Tile::kPatches;
      SumPatch scores[Tile::kPatches];
      add_patch_products(scores, patches, queries + warp * kPatch * kPitch, keys, kPitch, depth);
#pragma unroll
      for (int i = 0; i < Tile::kPatches; ++i)
        if (i < patches) store_patch(strip.scores + i * kPatch, scores[i], Tile::kScorePitch);
      __syncwarp();
      strip.take(first_key, patches);
      const float* const factor = strip.factors + first_row_of_sums();
#pragma unroll
      for (SumPatch& result : results) result.scale(factor[0], factor[kPatch / 2]);
      add_weighted_patches(results, 0, 1, columns, strip.weights(), strip.weights() + Tile::kKeys,
                           Queries::kWeightsPitch, patches, values, kPitch);
    }
    __syncwarp();  // the previous factors are no longer needed
    const std::int64_t left = call.queries - strip.first_query,
                       at = entry * call.queries + strip.first_query,
                       y_begin = call.offset(y.x, entry) + strip.first_query * y.x.row;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = strip.own.row(half * Queries::Own::kInRow);
      const auto [max, sum] = strip.state[half];
      if (strip.own.first_column != 0) continue;
      strip.factors[row] = sum;
      // A row without visible keys gives 0, and +inf makes its probabilities 0 in the backward
      // pass.
      if (row < left)
        log_sums[at + row] =
            sum == 0.0f ? std::numeric_limits<float>::infinity() : max + math::log(sum);
    }
    const float units = static_cast<float>(call.drops ? call.kept : 1.0) / kProbabilityUnits<T>;
#pragma unroll
    for (int j = 0; j < kWidth / kPatch; ++j)
      if (j < columns) {
        store_patch(strip.scores, results[j], Tile::kScorePitch);
        __syncwarp();
        y.store_patch<T>(strip.scores, Tile::kScorePitch, y_begin, left, j * kPatch,
                         [&](int i, float x) {
                           const float sum = strip.factors[i];
                           return sum == 0.0f ? 0.0f : x / sum * units;
                         });
        __syncwarp();
      }
  }
}

}  // namespace

// Tiles support 16-bit rows of up to 128 elements and products that the device has for the dtype.
// Any strides are supported: unaligned operands are loaded element by element. So is any size: a
// call of one tile is one launch either way, and patches outside are skipped.
bool tensor_cores_serve(const AttentionCall& call, DType dtype, Device device) {
  if (std::max(call.features, call.values) > kWidestRows) return false;
  const int capability = runtime::compute_capability(device.index);
  return (dtype == DType::f16 && has_tensor_cores<Half>(capability)) ||
         (dtype == DType::bf16 && has_tensor_cores<BFloat16>(capability));
}

void attention_on_tensor_cores(const AttentionCall& call, const AttentionOperand& y,
                               Tensor& log_sums) {
  visit_tensor_tile(
      call.q.dtype, std::max(call.features, call.values),
      [&]<class T, int kWidth>(std::type_identity<T>, std::integral_constant<int, kWidth>) {
        const std::int64_t tiles = blocks_for(call.queries, ForwardTile<kWidth>::kQueries);
        launch(&attention_kernel<T, kWidth>,
               {.blocks = call.entries * tiles, .threads = kTensorThreads},
               current_stream(log_sums.device()), call,
               TileOperand(call.q, call.queries, call.features),
               TileOperand(call.k, call.keys, call.features),
               TileOperand(call.v, call.keys, call.values), tiles,
               TileResult(y, call.q.dtype, call.values), log_sums.data<float>());
      });
}

}  // namespace mezzo::gpu
