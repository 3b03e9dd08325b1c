// The CUDA kernels of attention's gradients in f32. As in attention_backward.cu, a block owns rows:
// of dq, or of dk and dv, and iterates over all contributions to them.
#include "attention_quads.h"

namespace mezzo::gpu {

namespace {

inline constexpr int kOffsetThreads = 256, kOffsetRows = 64, kOffsetLanes = kQuadsOfRow;

/** Computes the sum of g y per query, which softmax's gradient subtracts. A block has 64 queries of
 *  an entry, 16 lanes each of them. */
__global__ void __launch_bounds__(kOffsetThreads)
    offsets_kernel(const AttentionCall __grid_constant__ call, const QuadMatrix __grid_constant__ g,
                   const QuadMatrix __grid_constant__ y, std::int64_t query_tiles, float* offsets) {
  const std::int64_t entry = blockIdx.x / query_tiles,
                     first = blockIdx.x % query_tiles * kOffsetRows;
  const std::int64_t g_offset = call.offset(g.x, entry), y_offset = call.offset(y.x, entry);
  constexpr int kStep = kOffsetThreads / kOffsetLanes, kRows = kOffsetRows / kStep;
  const int own = static_cast<int>(threadIdx.x) / kOffsetLanes,
            lane = static_cast<int>(threadIdx.x) % kOffsetLanes;
  Quad left[kRows], right[kRows];
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    left[i] = g.load(g_offset, first + own + i * kStep, lane * kQuadSize);
    right[i] = y.load(y_offset, first + own + i * kStep, lane * kQuadSize);
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    float sum = 0;
#pragma unroll
    for (int e = 0; e < kQuadSize; ++e) sum = std::fma(left[i].item[e], right[i].item[e], sum);
    for (int step = kOffsetLanes / 2; step > 0; step /= 2)
      sum += __shfl_xor_sync(kAllLanes, sum, step);
    const std::int64_t query = first + own + i * kStep;
    if (lane == 0 && query < call.queries) offsets[entry * call.queries + query] = sum;
  }
}

struct QuadGradients {
  AttentionCall call;
  QuadMatrix q, k, v, g;
  AttentionGiven<float> given;
  QuadMatrix dq, dk, dv;
  std::int64_t query_tiles, key_tiles, first_key_block;
};

struct BackwardRoom {
  alignas(Quad) QuadRows owned, owned_values, met, met_values;
  ScoreRows weights;
  float log_sums[kQuadTile], offsets[kQuadTile];  // of the queries of the tile
};

/** A block's work on rows of dq (kByQuery), or of dk and dv. */
template <bool kByQuery> struct BackwardBlock {
  const QuadGradients& all;
  BackwardRoom& room;
  std::int64_t entry, first_owned;
  QuadScores own = {};

  __device__ void load_statistics(std::int64_t first) const {
    for (int i = static_cast<int>(threadIdx.x); i < kQuadTile; i += kQuadThreads) {
      const bool inside = first + i < all.call.queries;
      const std::int64_t at = entry * all.call.queries + first + i;
      room.log_sums[i] = inside ? all.given.log_sums[at] : std::numeric_limits<float>::infinity();
      room.offsets[i] = inside ? all.given.offsets[at] : 0.0f;
    }
  }
  /** Returns the row of the tile's queries that number i belongs to. */
  __device__ int query_row(int i) const { return kByQuery ? own.row(i) : own.column(i); }
  __device__ ScorePlace place(std::int64_t first_met, int row, int column) const {
    const std::int64_t r = first_owned + row, c = first_met + column;
    const std::int64_t query = kByQuery ? r : c, key = kByQuery ? c : r;
    return {query < all.call.queries && key < all.call.keys, query, key};
  }

  /** Converts products of queries and keys into probabilities, 0 beyond the last query and key, and
   *  returns a bit per number that dropout keeps. */
  __device__ std::uint32_t find_probabilities(std::int64_t first_met, std::int64_t others,
                                              QuadNumbers& p) const {
    const AttentionCall& call = all.call;
    const std::uint32_t left =
        own.find_scores(call, entry, p, room.weights,
                        [&](int row, int column) { return place(first_met, row, column); });
    if (call.is_causal && first_met == first_owned)
      own.each(p, [&](int i, float& score) {
        if (kByQuery ? own.column(i) > own.row(i) : own.column(i) < own.row(i))
          score = -std::numeric_limits<float>::infinity();
      });
    own.each(p, [&](int i, float& x) { x = probability(x - room.log_sums[query_row(i)]); });
    if (others - first_met < kQuadTile)
      own.each(p, [&](int i, float& x) {
        if (first_met + own.column(i) >= others) x = 0;
      });
    return left;
  }

  /** Stores the gradients of scores, in shared memory, as those of the mask. */
  __device__ void store_mask_gradient(std::int64_t first_met) const {
#pragma unroll 1
    for (int i = 0; i < QuadScores::kCount; ++i) {
      const ScorePlace at = place(first_met, own.row(i), own.column(i));
      if (at.inside)
        all.given.dmask.store<float>((entry * all.call.queries + at.query) * all.call.keys + at.key,
                                     room.weights[own.place(i)]);
    }
  }

  __device__ void run() const {
    const AttentionCall& call = all.call;
    const QuadMatrix &rows = kByQuery ? all.q : all.k, &row_values = kByQuery ? all.g : all.v;
    const QuadMatrix &others = kByQuery ? all.k : all.q, &other_values = kByQuery ? all.v : all.g;
    const std::int64_t others_offset = call.offset(others.x, entry),
                       values_offset = call.offset(other_values.x, entry);
    rows.load_tile(call.offset(rows.x, entry), first_owned, room.owned);
    row_values.load_tile(call.offset(row_values.x, entry), first_owned, room.owned_values);
    if (kByQuery) load_statistics(first_owned);
    const float kept = static_cast<float>(call.kept);
    QuadNumbers results = {}, value_results = {};
    const std::int64_t begin = call.is_causal && !kByQuery ? first_owned : 0;
    const std::int64_t end = call.is_causal && kByQuery && first_owned + kQuadTile < others.rows
                                 ? first_owned + kQuadTile
                                 : others.rows;
    for (std::int64_t first = begin; first < end; first += kQuadTile) {
      __syncthreads();  // the previous rows are no longer needed
      others.load_tile(others_offset, first, room.met);
      other_values.load_tile(values_offset, first, room.met_values);
      if (!kByQuery) load_statistics(first);
      __syncthreads();
      const int terms = quads_in(end - first);
      QuadNumbers p = {};
      add_row_quads(p, own, room.owned, room.met, quads_in(call.features));
      const std::uint32_t left = find_probabilities(first, others.rows, p);
      const auto factor = [&](int i) { return left >> i & 1 ? kept : 0.0f; };
      if constexpr (!kByQuery) {
        if (call.drops)
          own.each(p, [&](int i, float x) { room.weights[own.place(i)] = x * factor(i); });
        else
          own.store(p, room.weights);
        __syncwarp();
        add_weighted_quads(value_results, own, room.weights, room.met_values, terms);
        __syncwarp();  // the weights are no longer needed
      }
      QuadNumbers slopes = {};
      add_row_quads(slopes, own, room.owned_values, room.met_values, quads_in(call.values));
      if (call.drops) own.each(slopes, [&](int i, float& slope) { slope *= factor(i); });
      own.each(slopes, [&](int i, float& slope) {
        slope = p[i / kQuadColumns][i % kQuadColumns] * (slope - room.offsets[query_row(i)]);
      });
      own.store(slopes, room.weights);
      __syncwarp();
      if (kByQuery && all.given.dmask.data) store_mask_gradient(first);
      add_weighted_quads(results, own, room.weights, room.met, terms);
      __syncwarp();  // the weights are no longer needed
    }
    const float scale = static_cast<float>(call.scale);
    own.each(results, [&](int, float& x) { x *= scale; });
    const QuadMatrix& to = kByQuery ? all.dq : all.dk;
    to.store(results, own, call.offset(to.x, entry), first_owned);
    if constexpr (!kByQuery)
      all.dv.store(value_results, own, call.offset(all.dv.x, entry), first_owned);
  }
};

__global__ void __launch_bounds__(kQuadThreads, 2)
    gradients_kernel(const QuadGradients __grid_constant__ all) {
  MZ_DYNAMIC_SHARED(BackwardRoom, room);
  std::int64_t block = blockIdx.x;
  if (block < all.first_key_block) {
    BackwardBlock<true>{all, *room, block / all.query_tiles, block % all.query_tiles * kQuadTile}
        .run();
  } else {
    block -= all.first_key_block;
    BackwardBlock<false>{all, *room, block / all.key_tiles, block % all.key_tiles * kQuadTile}
        .run();
  }
}

}  // namespace

void attention_backward_in_quads(const AttentionCall& call, const AttentionGiven<float>& given,
                                 const AttentionOperand& y, float* offsets,
                                 const AttentionOperand& dq, const AttentionOperand& dk,
                                 const AttentionOperand& dv, Device device) {
  QuadGradients all{.call = call,
                    .q = QuadMatrix(call.q, call.queries, call.features),
                    .k = QuadMatrix(call.k, call.keys, call.features),
                    .v = QuadMatrix(call.v, call.keys, call.values),
                    .g = QuadMatrix(given.g, call.queries, call.values),
                    .given = given,
                    .dq = QuadMatrix(dq, call.queries, call.features),
                    .dk = QuadMatrix(dk, call.keys, call.features),
                    .dv = QuadMatrix(dv, call.keys, call.values),
                    .query_tiles = blocks_for(call.queries, kQuadTile),
                    .key_tiles = blocks_for(call.keys, kQuadTile),
                    .first_key_block = 0};
  const std::int64_t offset_tiles = blocks_for(call.queries, kOffsetRows);
  launch(&offsets_kernel, {.blocks = call.entries * offset_tiles, .threads = kOffsetThreads},
         current_stream(device), call, all.g, QuadMatrix(y, call.queries, call.values),
         offset_tiles, offsets);
  all.first_key_block = call.entries * all.query_tiles;
  launch(&gradients_kernel,
         {.blocks = all.first_key_block + call.entries * all.key_tiles,
          .threads = kQuadThreads,
          .shared = shared_room<BackwardRoom>(&gradients_kernel)},
         current_stream(device), all);
}

}  // namespace mezzo::gpu
