// The CUDA kernels of the reductions with one number per result.
#include "../../../tensor/ops/reduce/reduce.h"

#include <numeric>

#include "../../../tensor/cpu/order.h"
#include "../../../tensor/ops/shape/copy.h"
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
    reduce_packed(in[0], attrs.dims, Fold<C, Greater>{lowest<C>(), Array(out[0])});
  });
}

void amin(Inputs in, Outputs out, const op::ReduceAttrs& attrs) {
  visit_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) {
    reduce_packed(in[0], attrs.dims, Fold<C, Less>{highest<C>(), Array(out[0])});
  });
}

// ---- sums of columns of packs -------------------------------------------------------------------

using PackedSum = SumOf<float>;

/** Columns of packs of some matrices over blocks: each block has `lanes` packs of a chunk of the
 *  rows of one. Rows that are not whole packs are joined: `joined` of the matrix are a row here. */
struct PackColumns {
  std::int64_t matrices, rows;  // rows of a matrix
  int packs, lanes, strips;     // packs of a row and of a block, blocks of a row
  int joined;
  std::int64_t chunk_rows, chunks;

  PackColumns(std::int64_t its_matrices, std::int64_t its_rows, std::int64_t its_packs,
              int its_joined)
      : matrices(its_matrices),
        rows(its_rows),
        packs(static_cast<int>(its_packs)),
        joined(its_joined) {
    lanes = static_cast<int>(
        std::bit_ceil(static_cast<std::uint64_t>(std::min<std::int64_t>(its_packs, kWarpSize))));
    strips = static_cast<int>(blocks_for(its_packs, lanes));
    const std::int64_t turn =
        kHeldPacks * (kTeamThreads / lanes);  // rows that a block loads at once
    const std::int64_t most = std::max<std::int64_t>(1, kPlenty / (matrices * strips));
    chunk_rows = std::max(turn, blocks_for(rows, most));
    chunks = blocks_for(rows, chunk_rows);
  }
  Grid grid() const { return {.blocks = matrices * chunks * strips, .threads = kTeamThreads}; }
  /** Returns the number of partial sums of a result. */
  MZ_HD std::int64_t parts() const { return chunks * joined; }
  /** Returns the place of a partial sum: that of a column of a chunk of a matrix. */
  __device__ std::int64_t part_of(std::int64_t matrix, std::int64_t column, std::int64_t length,
                                  std::int64_t chunk) const {
    const int width = static_cast<int>(length) / joined, at = static_cast<int>(column);
    return (matrix * width + at % width) * parts() + chunk * joined + at / width;
  }
};

/** Stores the sum of a column that one block has, or repeats it first. Not inlined: this is the
 * slow way. */
template <class T>
__device__ __noinline__ void repeat_column(const T* x, std::int64_t rows, std::int64_t length,
                                           PackedSum sum, std::int64_t matrix,
                                           std::int64_t column) {
  sum = sum.rescaled(0);
  float state = 0;
  x += matrix * rows * length;
  for (std::int64_t row = 0; row < rows; ++row)
    state = sum.add(state, element_as<float>(x[row * length + column]), row);
  sum.finish(matrix * length + column, state);
}

/** Sums chunks of columns of packs of C, whose elements are stored as T: as C, or in 16 bits, with
 *  the sums of packs of f32. */
template <class T, class C>
__global__ void __launch_bounds__(kTeamThreads)
    packed_column_sum_kernel(const PackColumns columns, const T* x, const PackedSum sum,
                             float* partial) {
  constexpr int kWidth = kPerPack<C>;
  using Words = WordsOf<T, kWidth>;
  MZ_SHARED(float, room, kTeamThreads* kWidth);
  const auto strips = static_cast<unsigned>(columns.strips);
  const int thread = static_cast<int>(threadIdx.x), slot = thread / columns.lanes,
            slots = kTeamThreads / columns.lanes,
            first_pack = static_cast<int>(blockIdx.x % strips) * columns.lanes,
            pack = first_pack + thread % columns.lanes;
  const Split place(blockIdx.x / strips, columns.chunks);
  const std::int64_t matrix = place.quotient, chunk = place.rest,
                     begin = chunk * columns.chunk_rows, left = columns.rows - begin,
                     end = begin + (left < columns.chunk_rows ? left : columns.chunk_rows);
  const auto* const packs =
      reinterpret_cast<const Words*>(x) + matrix * columns.rows * columns.packs + pack;
  float sums[kWidth] = {};
  for (std::int64_t row = begin + slot; pack < columns.packs && row < end;
       row += kHeldPacks * slots) {
    Words held[kHeldPacks] = {};
#pragma unroll
    for (int j = 0; j < kHeldPacks; ++j)
      if (row + j * slots < end) held[j] = packs[(row + j * slots) * columns.packs];
#pragma unroll
    for (int j = 0; j < kHeldPacks; ++j) {  // packs beyond the end are 0
      float values[kWidth];
      widen_part<kWidth, T>(held[j], values);
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
    const std::int64_t column = std::int64_t{first_pack} * kWidth + at,
                       length = std::int64_t{columns.packs} * kWidth;
    if (column >= length) continue;
    if (partial)
      partial[columns.part_of(matrix, column, length, chunk)] = state;
    else if (sum.is_safe(state))
      sum.finish(matrix * length + column, state);
    else
      repeat_column(x, columns.rows, length, sum, matrix, column);
  }
}

/** Launches packed_column_sum_kernel and returns true if it takes the sums: those of all columns of
 *  one or several matrices, of any width where the rows can be joined. Reads the 16-bit elements of
 * f32 operands that are to be converted. */
bool sum_columns(const PackView& view, const Tensor& input, std::uint32_t dims,
                 const PackedSum& sum) {
  if (view.reduced.rank != 1 || view.reduced.strides[0] == 1 || view.reduced.count == 0 ||
      view.kept.rank == 0 || view.kept.count == 0)
    return false;
  const std::int64_t width = view.kept.sizes[view.kept.rank - 1],
                     matrices = view.kept.count / width, rows = view.reduced.count,
                     per_pack = elements_per_pack(input.dtype()),
                     joined = per_pack / std::gcd(width, per_pack);
  if (!are_packs(width * joined, input.dtype()) || rows % joined != 0) return false;
  const PackColumns columns(matrices, rows / joined, width * joined / per_pack,
                            static_cast<int>(joined));
  if ((matrices > 1 || joined > 1) && columns.rows * columns.lanes < kTeamThreads)
    return false;  // too few packs for the threads of a block
  const Tensor low = op::late_source(input);
  const bool widens = low.dtype() != input.dtype() && view.has_order_of(low);
  const Tensor x = widens ? low : view.packed();
  const Device device = x.device();
  const ReductionPlan plan = reduction_of(widens ? low : input, dims);
  visit_packed(
      x.dtype(), input.dtype(),
      [&]<class T, class C>(std::type_identity<T>, std::type_identity<C>) {
        reduce_chunks(plan, view.kept.count, columns.parts(), sum, device, [&](float* partial) {
          launch(&packed_column_sum_kernel<T, C>, columns.grid(), current_stream(device), columns,
                 static_cast<const T*>(x.raw_data()), sum, partial);
        });
      });
  return true;
}

/** Sums rows and columns of packs; returns false for other sums. */
bool sum_packs(const Tensor& x, std::uint32_t dims, const PackedSum& sum) {
  const PackView view(x, dims);
  return reduce_rows(view, x, dims, sum) || sum_columns(view, x, dims, sum);
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
      if (sum_packs(in[0], attrs.dims, PackedSum{1, Array(out[0])})) return;
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
