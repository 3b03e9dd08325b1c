// The CUDA kernels of the reductions with one number per result.
#include "../../../tensor/ops/reduce/reduce.h"

#include "../../../tensor/cpu/order.h"
#include "../../attach.h"
#include "../typed.h"
#include "reduce.h"

namespace mezzo::gpu {

namespace {

using namespace cpu_kernels;

/** The result of a count of nonzero elements. */
enum class Count { all, any, number };

/** Counts nonzero elements, in integers for any dtype. */
template <class C> struct Nonzeros {
  using Value = C;
  using State = std::int64_t;
  Count count;
  std::int64_t length;
  Array out;

  __device__ State identity() const { return 0; }
  __device__ State add(State n, C x, std::int64_t) const { return n + (x != C(0) ? 1 : 0); }
  __device__ State combine(State a, State b) const { return a + b; }
  __device__ void finish(std::int64_t at, State n) const {
    out.store<std::int64_t>(at, count == Count::number ? n
                                : count == Count::any  ? n > 0
                                                       : n == length);
  }
};

void count_nonzeros(Inputs in, Outputs out, const op::ReduceAttrs& attrs, Count count) {
  const std::int64_t length = op::reduced_count(in[0].shape(), attrs);
  visit_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) {
    reduce(in[0], attrs.dims, Nonzeros<C>{count, length, Array(out[0])});
  });
}

void all(Inputs in, Outputs out, const op::ReduceAttrs& attrs) {
  count_nonzeros(in, out, attrs, Count::all);
}
void any(Inputs in, Outputs out, const op::ReduceAttrs& attrs) {
  count_nonzeros(in, out, attrs, Count::any);
}
void count_nonzero(Inputs in, Outputs out, const op::ReduceAttrs& attrs) {
  count_nonzeros(in, out, attrs, Count::number);
}

void amax(Inputs in, Outputs out, const op::ReduceAttrs& attrs) {
  visit_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) {
    fold<C, Greater>(in[0], out[0], attrs.dims, lowest<C>());
  });
}

void amin(Inputs in, Outputs out, const op::ReduceAttrs& attrs) {
  visit_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) {
    fold<C, Less>(in[0], out[0], attrs.dims, highest<C>());
  });
}

// ---- sums of rows and columns of packs ----------------------------------------------------------

using PackedSum = SumOf<float>;

/** Returns the scaled sum of the calling thread's packs of a row of T. Not inlined: this is the
 * slow way. */
template <class T>
__device__ __noinline__ float scaled_part(const T* row, int packs, int lanes, int lane,
                                          const PackedSum& sum) {
  constexpr int kWidth = kPerPack<T>;
  float state = 0;
  for (int at = lane; at < packs; at += lanes) {
    float values[kWidth];
    load_values<kWidth>(row + static_cast<std::int64_t>(at) * kWidth, values);
    for (int k = 0; k < kWidth; ++k) state = sum.add(state, values[k], 0);
  }
  return state;
}

/** Stores the sum of a row that a team has, or repeats it first. */
template <class T>
__device__ void finish_row(const PartTeam& team, const T* row, const PackedSum& sum, float state,
                           float* room) {
  const bool repeats = team.has_row && !sum.is_safe(state);
  PackedSum last = sum;
  if (__any_sync(kAllLanes, repeats)) {  // a team of several warps agrees
    if (repeats) last = sum.rescaled(state);
    const float part = repeats ? scaled_part(row, team.packs, team.lanes, team.lane, last) : 0.0f;
    const float again = team.all(part, Plus{}, room);
    if (repeats) state = again;
  }
  if (team.is_first()) last.finish(team.row, state);
}

/** Sums parts of rows of packs of T. */
template <class T>
__global__ void __launch_bounds__(kTeamThreads)
    packed_row_sum_kernel(const RowParts rows, const T* x, const PackedSum sum, float* partial) {
  constexpr int kWidth = kPerPack<T>;
  MZ_SHARED(float, room, kTeamWarps);
  const PartTeam team(rows);
  const T* const part = x + (team.whole_row * rows.packs + team.first_pack) * kWidth;
  RowPacks<T, 1> row(team, team.packs, part);
  float state = 0;
  row.for_each([&](int, int, const float(&v)[1][kWidth]) {
#pragma unroll
    for (int k = 0; k < kWidth; ++k) state += v[0][k];
  });
  state = team.all(state, Plus{}, room);
  if (!partial) return finish_row(team, part, sum, state, room);
  if (team.is_first()) partial[team.row] = state;
}

/** Columns of packs over blocks: each block has `lanes` packs of a chunk of the rows. */
struct PackColumns {
  std::int64_t rows;
  int packs, lanes, strips;  // packs of a row and of a block, blocks of a row
  std::int64_t chunk_rows, chunks;

  PackColumns(std::int64_t its_rows, std::int64_t its_packs)
      : rows(its_rows), packs(static_cast<int>(its_packs)) {
    lanes = static_cast<int>(
        std::bit_ceil(static_cast<std::uint64_t>(std::min<std::int64_t>(its_packs, kWarpSize))));
    strips = static_cast<int>(blocks_for(its_packs, lanes));
    const std::int64_t turn =
        kHeldPacks * (kTeamThreads / lanes);  // rows that a block loads at once
    const std::int64_t most = std::max<std::int64_t>(1, kPlenty / strips);
    chunk_rows = std::max(turn, blocks_for(rows, most));
    chunks = blocks_for(rows, chunk_rows);
  }
  Grid grid() const { return {.blocks = strips * chunks, .threads = kTeamThreads}; }
};

/** Stores the sum of a column that one block has, or repeats it first. Not inlined: this is the
 * slow way. */
template <class T>
__device__ __noinline__ void repeat_column(const PackColumns& columns, const T* x, PackedSum sum,
                                           std::int64_t column) {
  sum = sum.rescaled(0);
  float state = 0;
  for (std::int64_t row = 0; row < columns.rows; ++row) {
    const T value = x[row * columns.packs * kPerPack<T> + column];
    state = sum.add(state, element_as<float>(value), row);
  }
  sum.finish(column, state);
}

/** Sums chunks of columns of packs of T. */
template <class T>
__global__ void __launch_bounds__(kTeamThreads)
    packed_column_sum_kernel(const PackColumns columns, const T* x, const PackedSum sum,
                             float* partial) {
  constexpr int kWidth = kPerPack<T>;
  MZ_SHARED(float, room, kTeamThreads* kWidth);
  const auto strips = static_cast<unsigned>(columns.strips);
  const int thread = static_cast<int>(threadIdx.x), slot = thread / columns.lanes,
            slots = kTeamThreads / columns.lanes,
            first_pack = static_cast<int>(blockIdx.x % strips) * columns.lanes,
            pack = first_pack + thread % columns.lanes;
  const std::int64_t chunk = blockIdx.x / strips, begin = chunk * columns.chunk_rows,
                     left = columns.rows - begin,
                     end = begin + (left < columns.chunk_rows ? left : columns.chunk_rows);
  const auto* const packs = reinterpret_cast<const PackWords*>(x) + pack;
  float sums[kWidth] = {};
  for (std::int64_t row = begin + slot; pack < columns.packs && row < end;
       row += kHeldPacks * slots) {
    PackWords held[kHeldPacks] = {};
#pragma unroll
    for (int j = 0; j < kHeldPacks; ++j)
      if (row + j * slots < end) held[j] = packs[(row + j * slots) * columns.packs];
#pragma unroll
    for (int j = 0; j < kHeldPacks; ++j) {  // packs beyond the end are 0
      float values[kWidth];
      widen<T>(held[j], values);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) sums[k] += values[k];
    }
  }
#pragma unroll
  for (int k = 0; k < kWidth; ++k) room[thread * kWidth + k] = sums[k];
  __syncthreads();
  const int width = columns.lanes * kWidth;
  for (int at = thread; at < width; at += kTeamThreads) {
    float state = 0;
    for (int i = 0; i < slots; ++i) state += room[i * width + at];
    const std::int64_t column = std::int64_t{first_pack} * kWidth + at;
    if (column >= std::int64_t{columns.packs} * kWidth) continue;
    if (columns.chunks > 1)
      partial[column * columns.chunks + chunk] = state;
    else if (sum.is_safe(state))
      sum.finish(column, state);
    else
      repeat_column(columns, x, sum, column);
  }
}

/** Launches the kernels on packs and returns true if they take the sums: those of all rows or all
 *  columns of a matrix. The choice depends on the shape alone, and so do the bits of the results:
 *  other layouts are copied. */
bool sum_packs(const Tensor& input, std::uint32_t dims, const PackedSum& sum) {
  Axes kept, reduced;
  const Strides strides = contiguous_strides(input.shape());
  for (int i = 0; i < input.dim(); ++i)
    ((dims >> i & 1) != 0 ? reduced : kept).push(input.shape()[i], strides[i]);
  if (kept.count == 0 || kept.rank > 1 || reduced.count == 0 || reduced.rank != 1) return false;
  const bool of_rows = reduced.strides[0] == 1;
  if (!are_packs(of_rows ? reduced.count : kept.count, input.dtype())) return false;
  const Tensor x = aligned(row_major(input));
  const runtime::Stream stream = current_stream(x.device());
  const ReductionPlan plan = reduction_of(x, dims);
  visit_packed(x.dtype(), [&]<class T>(std::type_identity<T>) {
    if (of_rows) {
      const RowParts rows = RowParts::of(kept.count, reduced.count, x.dtype());
      return reduce_chunks(plan, kept.count, rows.parts, sum, x.device(), [&](float* partial) {
        launch(&packed_row_sum_kernel<T>, rows.teams.grid(), stream, rows, x.template data<T>(),
               sum, partial);
      });
    }
    const PackColumns columns(reduced.count, kept.count / kPerPack<T>);
    reduce_chunks(plan, kept.count, columns.chunks, sum, x.device(), [&](float* partial) {
      launch(&packed_column_sum_kernel<T>, columns.grid(), stream, columns, x.template data<T>(),
             sum, partial);
    });
  });
  return true;
}

void mean(Inputs in, Outputs out, const op::ReduceAttrs& attrs) {
  visit_floating_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) {
    const C count = static_cast<C>(op::reduced_count(in[0].shape(), attrs));
    const SumOf<C> mean{count, Array(out[0])};
    if constexpr (std::is_same_v<C, float>)
      if (sum_packs(in[0], attrs.dims, mean)) return;
    reduce(in[0], attrs.dims, mean);
  });
}

void sum(Inputs in, Outputs out, const op::ReduceAttrs& attrs) {
  visit_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) {
    if constexpr (std::is_same_v<C, float>)
      if (sum_packs(in[0], attrs.dims, {1, Array(out[0])})) return;
    fold<C, Plus>(in[0], out[0], attrs.dims, C(0));
  });
}

}  // namespace

void attach_reduce() {
  attach<op::All, all>();
  attach<op::Amax, amax>();
  attach<op::Amin, amin>();
  attach<op::Any, any>();
  attach<op::CountNonzero, count_nonzero>();
  attach<op::Mean, mean>();
  attach<op::Sum, sum>();
}

}  // namespace mezzo::gpu
