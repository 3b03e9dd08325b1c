// The matrix product for operands of any strides and dtypes: what runs where cuBLASLt does not fit or is not there.
// Tiles of 64 x 64 results per block, 4 x 4 per thread; both factors pass through shared memory in slices of 16.
#include "gemm.h"

#include "element.h"

namespace mezzo::gpu {

namespace {

constexpr int kTile = 64, kDepth = 16, kSide = 16, kOwn = kTile / kSide;
constexpr int kThreads = kSide * kSide;
constexpr int kLoads = kTile * kDepth / kThreads;
constexpr int kPitch = kTile + 1;  // so that the lanes of a store fall on different banks

/** The block's place in the grid of tiles and where its batch entry lies. */
struct Place {
  std::int64_t row, column;          // of the tile's first element
  std::int64_t a, b, c, addend;      // offsets of the batch entry, in elements
};

__device__ inline Place place_of(const GemmCall& call) {
  const std::int64_t rows = (call.m + kTile - 1) / kTile, columns = (call.n + kTile - 1) / kTile;
  std::int64_t index = blockIdx.x;
  Place at{};
  at.column = index % columns * kTile;
  index /= columns;
  at.row = index % rows * kTile;
  index /= rows;
  for (int i = call.rank - 1; i >= 0; --i) {
    const std::int64_t here = index % call.batch[i];
    index /= call.batch[i];
    at.a += here * call.a.batch[i];
    at.b += here * call.b.batch[i];
    at.c += here * call.c.batch[i];
    at.addend += here * call.addend.batch[i];
  }
  return at;
}

/** Brings a slice of kTile lines and kDepth terms into shared memory as tile[term][line]; zeros outside. `line` and `term` are the strides of
 *  the two. Neighbouring threads read neighbouring elements, whichever of the two runs through memory. */
template <class C>
__device__ inline void load_slice(const GemmOperand& x, std::int64_t offset, std::int64_t line_stride,
                                  std::int64_t term_stride, std::int64_t first_line, std::int64_t lines,
                                  std::int64_t first_term, std::int64_t terms, C (*tile)[kPitch]) {
  const bool along_terms = term_stride == 1;
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const int index = static_cast<int>(threadIdx.x) + i * kThreads;
    const int line = along_terms ? index / kDepth : index % kTile;
    const int term = along_terms ? index % kDepth : index / kTile;
    const std::int64_t l = first_line + line, t = first_term + term;
    C value = 0;
    if (l < lines && t < terms)
      value = load_element<C>(x.data, x.dtype, offset + l * line_stride + t * term_stride);
    tile[term][line] = value;
  }
}

template <class C>
__device__ inline void store_result(const GemmCall& call, const Place& at, std::int64_t row,
                                    std::int64_t column, C sum) {
  if (row >= call.m || column >= call.n) return;
  C value = static_cast<C>(call.alpha) * sum;
  if (call.beta != 0) {
    const std::int64_t from = at.addend + row * call.addend.row + column * call.addend.column;
    value = value + static_cast<C>(call.beta) * load_element<C>(call.addend.data, call.addend.dtype, from);
  }
  store_element<C>(call.c.data, call.c.dtype, at.c + row * call.c.row + column * call.c.column, value);
}

template <class C>
__global__ void __launch_bounds__(kThreads) gemm_kernel(const __grid_constant__ GemmCall call) {
  using Line = C[kPitch];
  MZ_SHARED(Line, left, kDepth);
  MZ_SHARED(Line, right, kDepth);
  const Place at = place_of(call);
  const int own_row = static_cast<int>(threadIdx.x) / kSide, own_column = static_cast<int>(threadIdx.x) % kSide;
  C sums[kOwn][kOwn] = {};
  for (std::int64_t term = 0; term < call.k; term += kDepth) {
    load_slice<C>(call.a, at.a, call.a.row, call.a.column, at.row, call.m, term, call.k, left);
    load_slice<C>(call.b, at.b, call.b.column, call.b.row, at.column, call.n, term, call.k, right);
    __syncthreads();
#pragma unroll
    for (int t = 0; t < kDepth; ++t) {
      C a[kOwn], b[kOwn];
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        a[i] = left[t][own_row + i * kSide];
        b[i] = right[t][own_column + i * kSide];
      }
#pragma unroll
      for (int i = 0; i < kOwn; ++i)
#pragma unroll
        for (int j = 0; j < kOwn; ++j) sums[i][j] = fma(a[i], b[j], sums[i][j]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kOwn; ++i)
#pragma unroll
    for (int j = 0; j < kOwn; ++j)
      store_result<C>(call, at, at.row + own_row + i * kSide, at.column + own_column + j * kSide, sums[i][j]);
}

}  // namespace

void gemm(const GemmCall& call, runtime::Stream stream) {
  std::int64_t blocks = blocks_for(call.m, kTile) * blocks_for(call.n, kTile);
  for (int i = 0; i < call.rank; ++i) blocks *= call.batch[i];
  const Grid grid{.blocks = blocks, .threads = kThreads};
  if (call.c.dtype == DType::f64)
    launch(&gemm_kernel<double>, grid, stream, call);
  else
    launch(&gemm_kernel<float>, grid, stream, call);
}

}  // namespace mezzo::gpu
