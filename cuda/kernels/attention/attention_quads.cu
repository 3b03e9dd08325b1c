// The CUDA kernel of attention in f32. As in attention.cu, it iterates over tiles of keys.
#include "attention_quads.h"

namespace mezzo::gpu {

namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();

struct ForwardRoom {
  alignas(Quad) QuadRows queries, keys, values;
  ScoreRows weights;
};

/** Return the maximum, and the sum, over the 16 lanes of a row. */
__device__ inline float row_max(float x) {
  for (int step = kWarpSize / 2; step > 1; step /= 2)
    x = std::fmax(x, __shfl_xor_sync(kAllLanes, x, step));
  return x;
}
__device__ inline float row_sum(float x) {
  for (int step = kWarpSize / 2; step > 1; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}

/** The state of the rows that a thread owns: the maximum of the scores, and the sum of the
 *  exponentials of the thread's own. */
struct RowStates {
  float max[kQuadRows], sum[kQuadRows] = {};

  __device__ RowStates() {
#pragma unroll
    for (int i = 0; i < kQuadRows; ++i) max[i] = kHidden;
  }

  /** Converts scores into probabilities, up to the sums, and multiplies earlier results by the
   *  factors that new maxima require. */
  __device__ void take(QuadNumbers& scores, QuadNumbers& results) {
#pragma unroll
    for (int i = 0; i < kQuadRows; ++i) {
      float top = max[i];
#pragma unroll
      for (int j = 0; j < kQuadColumns; ++j) top = std::fmax(top, scores[i][j]);
      top = row_max(top);
      const float shift = top == kHidden ? 0.0f : top, factor = probability(max[i] - shift);
      max[i] = top;
      float part = 0;
#pragma unroll
      for (int j = 0; j < kQuadColumns; ++j) {
        scores[i][j] = probability(scores[i][j] - shift);
        part += scores[i][j];
        results[i][j] *= factor;
      }
      sum[i] = sum[i] * factor + part;
    }
  }
};

__global__ void __launch_bounds__(kQuadThreads, 3)
    attention_kernel(const AttentionCall __grid_constant__ call,
                     const QuadMatrix __grid_constant__ q, const QuadMatrix __grid_constant__ k,
                     const QuadMatrix __grid_constant__ v, std::int64_t query_tiles,
                     const QuadMatrix __grid_constant__ y, float* log_sums) {
  MZ_DYNAMIC_SHARED(ForwardRoom, room);
  const QuadScores own;
  // the last queries first, which see the most keys in causal attention
  const std::int64_t entry = blockIdx.x / query_tiles,
                     first_query = (query_tiles - 1 - blockIdx.x % query_tiles) * kQuadTile;
  const std::int64_t k_offset = call.offset(k.x, entry), v_offset = call.offset(v.x, entry);
  q.load_tile(call.offset(q.x, entry), first_query, room->queries);
  QuadNumbers results = {};
  RowStates rows;
  const float kept = static_cast<float>(call.kept);
  const std::int64_t visible =
      call.is_causal && first_query + kQuadTile < call.keys ? first_query + kQuadTile : call.keys;
  for (std::int64_t first_key = 0; first_key < visible; first_key += kQuadTile) {
    __syncthreads();  // the previous rows are no longer needed
    k.load_tile(k_offset, first_key, room->keys);
    v.load_tile(v_offset, first_key, room->values);
    __syncthreads();
    QuadNumbers scores = {};
    add_row_quads(scores, own, room->queries, room->keys, quads_in(call.features));
    const std::uint32_t left =
        own.find_scores(call, entry, scores, room->weights, [&](int row, int column) {
          const std::int64_t query = first_query + row, key = first_key + column;
          return ScorePlace{query < call.queries && key < call.keys, query, key};
        });
    if (call.is_causal && first_query == first_key)
      own.each(scores, [&](int i, float& score) {
        if (own.column(i) > own.row(i)) score = kHidden;
      });
    if (call.keys - first_key < kQuadTile)
      own.each(scores, [&](int i, float& score) {
        if (first_key + own.column(i) >= call.keys) score = kHidden;
      });
    rows.take(scores, results);
    if (call.drops) own.each(scores, [&](int i, float& p) { p *= left >> i & 1 ? kept : 0.0f; });
    own.store(scores, room->weights);
    __syncwarp();
    add_weighted_quads(results, own, room->weights, room->values, quads_in(visible - first_key));
    __syncwarp();  // the weights are no longer needed
  }
#pragma unroll
  for (int i = 0; i < kQuadRows; ++i) {
    const std::int64_t query = first_query + own.row(i * kQuadColumns);
    const float sum = row_sum(rows.sum[i]);
    // A row without visible keys gives 0, and +inf makes its probabilities 0 in the backward pass.
    if (own.first_column == 0 && query < call.queries)
      log_sums[entry * call.queries + query] =
          sum == 0.0f ? std::numeric_limits<float>::infinity() : rows.max[i] + math::log(sum);
#pragma unroll
    for (int j = 0; j < kQuadColumns; ++j) results[i][j] = sum == 0.0f ? 0.0f : results[i][j] / sum;
  }
  y.store(results, own, call.offset(y.x, entry), first_query);
}

}  // namespace

// Tiles hold rows of up to 64 elements, of any strides. A block needs more shared memory than
// devices below compute capability 8.0 have.
bool quads_serve(const AttentionCall& call, DType dtype, Device device) {
  return dtype == DType::f32 && std::max(call.features, call.values) <= kQuadTile &&
         runtime::compute_capability(device.index) >= 80;
}

void attention_in_quads(const AttentionCall& call, const AttentionOperand& y, Tensor& log_sums) {
  const std::int64_t tiles = blocks_for(call.queries, kQuadTile);
  launch(&attention_kernel,
         {.blocks = call.entries * tiles,
          .threads = kQuadThreads,
          .shared = shared_room<ForwardRoom>(&attention_kernel)},
         current_stream(log_sums.device()), call, QuadMatrix(call.q, call.queries, call.features),
         QuadMatrix(call.k, call.keys, call.features), QuadMatrix(call.v, call.keys, call.values),
         tiles, QuadMatrix(y, call.queries, call.values), log_sums.data<float>());
}

}  // namespace mezzo::gpu
