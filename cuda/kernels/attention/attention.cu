// Attention: by cuDNN where it is used, else by Mezzo's kernels. The kernel of this file iterates
// over tiles of keys; each row of queries accumulates its maximum, the sum of its exponentials, and
// its weighted values. Method: Milakov, Gimelshein, Online normalizer calculation for softmax
// (2018); Dao et al., FlashAttention (2022).
#include "attention.h"

#include "../../attach.h"
#include "../../dnn/attention_library.h"

namespace mezzo::gpu {

namespace {

/** Return the maximum, and the sum, over the lanes of a row. */
template <class C> __device__ C row_max(C x) {
  for (int step = kSide / 2; step > 0; step /= 2) {
    const C other = __shfl_xor_sync(kAllLanes, x, step);
    x = other > x ? other : x;
  }
  return x;
}
template <class C> __device__ C row_sum(C x) {
  for (int step = kSide / 2; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}

template <class C, class T>
__global__ void __launch_bounds__(kAttentionThreads)
    attention_kernel(const AttentionCall __grid_constant__ call, std::int64_t query_tiles,
                     std::int64_t column_tiles, const AttentionOperand __grid_constant__ y,
                     C* log_sums) {
  MZ_SHARED(typename T::Line, left, kSlice);
  MZ_SHARED(typename T::Line, right, kSlice);
  MZ_SHARED(typename T::Line, weights, T::kTile);
  MZ_SHARED(typename T::Wide, slice, kSlice);
  constexpr C kLowest = -std::numeric_limits<C>::infinity();
  const std::int64_t block = blockIdx.x;
  const std::int64_t first_column = block % column_tiles * T::kColumns;
  const std::int64_t first_query = block / column_tiles % query_tiles * T::kTile;
  const std::int64_t entry = block / column_tiles / query_tiles;
  const int thread = static_cast<int>(threadIdx.x), row = thread / kSide, column = thread % kSide;
  const std::int64_t mask_offset = call.offset(call.mask, entry);
  const MatrixRows queries{&call.q, call.offset(call.q, entry), first_query, call.queries};
  MatrixRows keys{&call.k, call.offset(call.k, entry), 0, call.keys};
  MatrixRows values{&call.v, call.offset(call.v, entry), 0, call.keys};

  C results[T::kOwn][T::kOwnColumns] = {}, max[T::kOwn], sum[T::kOwn] = {};
#pragma unroll
  for (int i = 0; i < T::kOwn; ++i) max[i] = kLowest;
  const std::int64_t visible =
      call.is_causal && first_query + T::kTile < call.keys ? first_query + T::kTile : call.keys;
  for (std::int64_t first_key = 0; first_key < visible; first_key += T::kTile) {
    keys.first = values.first = first_key;
    C scores[T::kOwn][T::kOwn] = {};
    add_row_products<C, T>(scores, queries, keys, call.features, left, right);
    __syncthreads();  // the previous weights are no longer needed
#pragma unroll
    for (int i = 0; i < T::kOwn; ++i) {
      const std::int64_t query = first_query + row + i * kSide;
      C top = max[i];
#pragma unroll
      for (int j = 0; j < T::kOwn; ++j) {
        const std::int64_t key = first_key + column + j * kSide;
        const bool inside = query < call.queries && key < call.keys;
        scores[i][j] = inside ? call.score(scores[i][j], mask_offset, query, key) : kLowest;
        top = scores[i][j] > top ? scores[i][j] : top;
      }
      top = row_max(top);
      const C shift = top == kLowest ? C(0) : top, factor = math::exp(max[i] - shift);
      max[i] = top;
      C part = 0;
#pragma unroll
      for (int j = 0; j < T::kOwn; ++j) {
        const std::int64_t key = first_key + column + j * kSide;
        const C p = math::exp(scores[i][j] - shift);
        part += p;
        const bool kept = call.drops && query < call.queries && key < call.keys;
        weights[row + i * kSide][column + j * kSide] =
            kept ? p * call.factor<C>(entry, query, key) : p;
      }
      sum[i] = sum[i] * factor + row_sum(part);
#pragma unroll
      for (int j = 0; j < T::kOwnColumns; ++j) results[i][j] *= factor;
    }
    add_weighted_rows<C, T>(results, weights, values, first_column, call.values, slice);
  }
#pragma unroll
  for (int i = 0; i < T::kOwn; ++i) {
    const std::int64_t query = first_query + row + i * kSide;
    // A row without visible keys gives 0, and +inf makes its probabilities 0 in the backward pass.
    if (first_column == 0 && column == 0 && query < call.queries)
      log_sums[entry * call.queries + query] =
          sum[i] == C(0) ? std::numeric_limits<C>::infinity() : max[i] + math::log(sum[i]);
#pragma unroll
    for (int j = 0; j < T::kOwnColumns; ++j)
      results[i][j] = sum[i] == C(0) ? C(0) : results[i][j] / sum[i];
  }
  store_rows<C, T>(results, y, call.offset(y, entry), first_query, call.queries, first_column,
                   call.values);
}

}  // namespace

void own_attention(Inputs in, Outputs out, const op::AttentionAttrs& attrs) {
  if (out[1].numel() == 0) return;
  const AttentionCall call(in[0], in[1], in[2], in[3], attrs);
  const AttentionOperand y(out[0], op::attention_batch(in[0], in[1], in[2]));
  if (tensor_cores_serve(call, in[0].dtype(), in[0].device()))
    return attention_on_tensor_cores(call, y, out[1]);
  if (quads_serve(call, in[0].dtype(), in[0].device())) return attention_in_quads(call, y, out[1]);
  visit_attention_tile(
      in[0].dtype(), call.values,
      [&]<class T, class C>(std::type_identity<T>, std::type_identity<C>) {
        const std::int64_t queries = T::tiles(call.queries), columns = T::column_tiles(call.values);
        launch(&attention_kernel<C, T>,
               {.blocks = call.entries * queries * columns, .threads = kAttentionThreads},
               current_stream(in[0].device()), call, queries, columns, y, out[1].data<C>());
      });
}

namespace {

void attention(Inputs in, Outputs out, const op::AttentionAttrs& attrs) {
  if (!attention_by_library(in, out, attrs)) own_attention(in, out, attrs);
}

}  // namespace

void attach_attention() { attach<op::Attention, attention>(); }

}  // namespace mezzo::gpu
