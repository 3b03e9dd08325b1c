// The CUDA kernels of attention's gradients. Probabilities are recomputed from the saved
// logarithms, tile by tile. A block owns rows of one gradient and iterates over all contributions
// to them, so that no two threads add to one element.
#include "../../../tensor/cpu/order.h"
#include "../../attach.h"
#include "../../dnn/attention_library.h"
#include "../items.h"
#include "attention.h"

namespace mezzo::gpu {

namespace {

/** Computes the sum of g y per query, which softmax's gradient subtracts. Lines are the rows of
 *  both, of all entries. */
template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    offsets_kernel(const Lines __grid_constant__ rows, const AttentionCall __grid_constant__ call,
                   const AttentionOperand __grid_constant__ g,
                   const AttentionOperand __grid_constant__ y, C* offsets) {
  MZ_SHARED(C, room, kSpreadThreads);
  const LineWalk walk(rows);
  const Split at(walk.line, call.queries);
  const std::int64_t g_offset = call.offset(g, at.quotient), y_offset = call.offset(y, at.quotient);
  const C sum = walk.fold(room, C(0), cpu_kernels::Plus{}, [&](std::int64_t, std::int64_t i) {
    return g.load<C>(g_offset, at.rest, i) * y.load<C>(y_offset, at.rest, i);
  });
  if (walk.is_first()) offsets[walk.line] = sum;
}

/** The gradient that a block owns rows of. */
enum class Gradient : std::uint8_t { queries, keys, values };

template <class C> struct AttentionGradients {
  AttentionCall call;
  AttentionGiven<C> given;
  AttentionOperand dq, dk, dv;
  // Numbers of tiles of rows and columns, and the first block of each gradient.
  std::int64_t query_tiles, key_tiles, feature_tiles, value_tiles, first_key_block,
      first_value_block;
};

/** A block's rows and columns of its gradient. */
struct Owned {
  Gradient what;
  std::int64_t entry, row, column;
};

template <class C, class T> __device__ Owned owned_by_block(const AttentionGradients<C>& all) {
  std::int64_t block = blockIdx.x;
  const Gradient what = block >= all.first_value_block ? Gradient::values
                        : block >= all.first_key_block ? Gradient::keys
                                                       : Gradient::queries;
  if (what == Gradient::values) block -= all.first_value_block;
  if (what == Gradient::keys) block -= all.first_key_block;
  const std::int64_t columns = what == Gradient::values ? all.value_tiles : all.feature_tiles,
                     rows = what == Gradient::queries ? all.query_tiles : all.key_tiles;
  return {what, block / columns / rows, block / columns % rows * T::kTile,
          block % columns * T::kColumns};
}

template <class C, class T>
__global__ void __launch_bounds__(kAttentionThreads)
    gradients_kernel(const AttentionGradients<C> __grid_constant__ all) {
  MZ_SHARED(typename T::Line, left, kSlice);
  MZ_SHARED(typename T::Line, right, kSlice);
  MZ_SHARED(typename T::Line, weights, T::kTile);
  MZ_SHARED(typename T::Wide, slice, kSlice);
  const AttentionCall& call = all.call;
  const Owned own = owned_by_block<C, T>(all);
  const std::int64_t entry = own.entry, mask_offset = call.offset(call.mask, entry);
  const bool by_query = own.what == Gradient::queries;
  const int thread = static_cast<int>(threadIdx.x), row = thread / kSide, column = thread % kSide;
  const MatrixRows q{&call.q, call.offset(call.q, entry), 0, call.queries},
      k{&call.k, call.offset(call.k, entry), 0, call.keys},
      v{&call.v, call.offset(call.v, entry), 0, call.keys},
      g{&all.given.g, call.offset(all.given.g, entry), 0, call.queries};
  // The owned rows, the rows they are multiplied with, and the operands of the products that give
  // the scores and their gradients.
  MatrixRows rows = by_query ? q : k, row_values = by_query ? g : v, met = by_query ? k : q,
             met_values = by_query ? v : g;
  rows.first = row_values.first = own.row;
  MatrixRows added = own.what == Gradient::values ? g : met;
  const std::int64_t columns = own.what == Gradient::values ? call.values : call.features;

  C results[T::kOwn][T::kOwnColumns] = {};
  const std::int64_t begin = call.is_causal && !by_query ? own.row : 0;
  const std::int64_t end =
      call.is_causal && by_query && own.row + T::kTile < met.count ? own.row + T::kTile : met.count;
  for (std::int64_t first = begin; first < end; first += T::kTile) {
    met.first = met_values.first = added.first = first;
    C scores[T::kOwn][T::kOwn] = {}, slopes[T::kOwn][T::kOwn] = {};
    add_row_products<C, T>(scores, rows, met, call.features, left, right);
    if (own.what != Gradient::values)
      add_row_products<C, T>(slopes, row_values, met_values, call.values, left, right);
    __syncthreads();  // the previous weights are no longer needed
#pragma unroll
    for (int i = 0; i < T::kOwn; ++i)
#pragma unroll
      for (int j = 0; j < T::kOwn; ++j) {
        const std::int64_t r = own.row + row + i * kSide, m = first + column + j * kSide;
        const std::int64_t query = by_query ? r : m, key = by_query ? m : r;
        C weight = 0;
        if (query < call.queries && key < call.keys) {
          const std::int64_t at = entry * call.queries + query;
          const C p =
              math::exp(call.score(scores[i][j], mask_offset, query, key) - all.given.log_sums[at]);
          const C factor = call.factor<C>(entry, query, key);
          weight = own.what == Gradient::values
                       ? p * factor
                       : p * (slopes[i][j] * factor - all.given.offsets[at]);
          if (by_query && own.column == 0 && all.given.dmask.data)
            all.given.dmask.template store<C>(at * call.keys + key, weight);
        }
        weights[row + i * kSide][column + j * kSide] = weight;
      }
    add_weighted_rows<C, T>(results, weights, added, own.column, columns, slice);
  }
  if (own.what != Gradient::values)
#pragma unroll
    for (int i = 0; i < T::kOwn; ++i)
#pragma unroll
      for (int j = 0; j < T::kOwnColumns; ++j) results[i][j] *= static_cast<C>(call.scale);
  const AttentionOperand& to = by_query ? all.dq : own.what == Gradient::keys ? all.dk : all.dv;
  store_rows<C, T>(results, to, call.offset(to, entry), own.row, rows.count, own.column, columns);
}

}  // namespace

void own_attention_backward(Inputs in, Outputs out, const op::AttentionBackward::Attrs& attrs) {
  const AttentionCall call(in[1], in[2], in[3], in[4], attrs.forward);
  const Tensor log_sums = row_major(in[6]);
  const Device device = log_sums.device();
  const runtime::Stream stream = current_stream(device);
  const Shape batch = op::attention_batch(in[1], in[2], in[3]);
  const AttentionOperand g(in[0], batch), y(in[5], batch), dq(out[0], batch), dk(out[1], batch),
      dv(out[2], batch);
  visit_attention_tile(
      in[1].dtype(), std::max(call.features, call.values),
      [&]<class T, class C>(std::type_identity<T>, std::type_identity<C>) {
        const std::int64_t rows = call.entries * call.queries;
        const Tensor room = workspace(rows * static_cast<std::int64_t>(sizeof(C)), device);
        C* const offsets = static_cast<C*>(room.raw_data());
        const AttentionGiven<C> given{.g = g,
                                      .log_sums = log_sums.data<C>(),
                                      .offsets = offsets,
                                      .dmask = attrs.mask_gradient ? Array(out[3]) : Array()};
        if constexpr (std::is_same_v<C, float>)
          if (quads_serve(call, in[1].dtype(), device))
            return attention_backward_in_quads(call, given, y, offsets, dq, dk, dv, device);
        const Lines lines = trailing_lines({rows, call.values}, 1);
        launch(&offsets_kernel<C>, grid_of(lines), stream, lines, call, g, y, offsets);
        if constexpr (std::is_same_v<C, float>)
          if (tensor_cores_serve(call, in[1].dtype(), device))
            return attention_backward_on_tensor_cores(call, given, dq, dk, dv, device);
        AttentionGradients<C> all{.call = call,
                                  .given = given,
                                  .dq = dq,
                                  .dk = dk,
                                  .dv = dv,
                                  .query_tiles = T::tiles(call.queries),
                                  .key_tiles = T::tiles(call.keys),
                                  .feature_tiles = T::column_tiles(call.features),
                                  .value_tiles = T::column_tiles(call.values),
                                  .first_key_block = 0,
                                  .first_value_block = 0};
        all.first_key_block = call.entries * all.query_tiles * all.feature_tiles;
        all.first_value_block =
            all.first_key_block + call.entries * all.key_tiles * all.feature_tiles;
        const std::int64_t blocks =
            all.first_value_block + call.entries * all.key_tiles * all.value_tiles;
        launch(&gradients_kernel<C, T>, {.blocks = blocks, .threads = kAttentionThreads}, stream,
               all);
      });
}

namespace {

void attention_backward(Inputs in, Outputs out, const op::AttentionBackward::Attrs& attrs) {
  if (!attention_backward_by_library(in, out, attrs)) own_attention_backward(in, out, attrs);
}

}  // namespace

void attach_attention_backward() { attach<op::AttentionBackward, attention_backward>(); }

}  // namespace mezzo::gpu
