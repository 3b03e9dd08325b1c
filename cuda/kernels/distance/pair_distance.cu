// The CUDA kernels of the distances between all pairs of vectors, and of their gradients.
#include "../../../tensor/ops/distance/pair_distance.h"

#include "../../../tensor/ops/distance/metrics_cpu.h"
#include "../../attach.h"
#include "../lines.h"

namespace mezzo::gpu {

namespace {

using namespace cpu_kernels;

/** The vectors of both sides, [batch, left, length] and [batch, right, length]. */
template <class C> struct Pairs {
  const C *x1, *x2;
  std::int64_t batch, left, right, length;
  bool triangle;  // both sides are the same, and only pairs i < j are stored

  __device__ bool has(std::int64_t i, std::int64_t j) const {
    return i < left && j < right && (!triangle || i < j);
  }
  /** Returns the offset of a pair's distance; in a triangle the order of i and j does not
   *  matter. */
  __device__ std::int64_t place(std::int64_t b, std::int64_t i, std::int64_t j) const {
    if (triangle) return i < j ? pair_place(i, j, left) : pair_place(j, i, left);
    return (b * left + i) * right + j;
  }
};

// A block computes kSide x kSide distances, kOwn x kOwn per thread, from kDepth coordinates at a
// time in shared memory.
constexpr int kPairThreads = 256, kRow = 16, kOwn = 2, kPairSide = kRow * kOwn, kDepth = 32;
static_assert(kRow * kRow == kPairThreads && kMetricPart % kDepth == 0);

template <class C>
__device__ void load_side(C* side, const C* rows, std::int64_t first, std::int64_t count,
                          std::int64_t m, std::int64_t length) {
  for (int e = static_cast<int>(threadIdx.x); e < kPairSide * kDepth; e += kPairThreads) {
    const int row = e / kDepth, k = e % kDepth;
    const bool exists = first + row < count && m + k < length;
    side[row * (kDepth + 1) + k] = exists ? rows[(first + row) * length + m + k] : C(0);
  }
}

/** Computes the distance of a pair whose sum of steps left the range of C. Not inlined: this is the
 *  slow way. */
template <class C, class Metric>
__device__ __noinline__ C slow_distance(const Metric& metric, C sum, const C* a, const C* b,
                                        std::int64_t length) {
  return safe_distance(metric, sum, a, b, 1, length);
}

template <class C, class Metric>
__global__ void __launch_bounds__(kPairThreads)
    distance_kernel(const Pairs<C> __grid_constant__ pairs, const Metric metric, C* y) {
  MZ_SHARED(C, left, kPairSide * (kDepth + 1));
  MZ_SHARED(C, right, kPairSide * (kDepth + 1));
  const std::int64_t columns = blocks_for(pairs.right, kPairSide),
                     rows = blocks_for(pairs.left, kPairSide);
  const auto block = static_cast<std::int64_t>(blockIdx.x);
  const std::int64_t b = block / (rows * columns);
  const std::int64_t i0 = block / columns % rows * kPairSide, j0 = block % columns * kPairSide;
  if (pairs.triangle && j0 + kPairSide <= i0 + 1) return;
  const C* const x1 = pairs.x1 + b * pairs.left * pairs.length;
  const C* const x2 = pairs.x2 + b * pairs.right * pairs.length;
  const int ti = static_cast<int>(threadIdx.x) / kRow, tj = static_cast<int>(threadIdx.x) % kRow;
  C total[kOwn][kOwn] = {};
  for (std::int64_t first = 0; first < pairs.length; first += kMetricPart) {
    C part[kOwn][kOwn] = {};
    for (std::int64_t m = first; m < first + kMetricPart && m < pairs.length; m += kDepth) {
      __syncthreads();
      load_side(left, x1, i0, pairs.left, m, pairs.length);
      load_side(right, x2, j0, pairs.right, m, pairs.length);
      __syncthreads();
      const std::int64_t rest = pairs.length - m;
      const int depth = rest < kDepth ? static_cast<int>(rest) : kDepth;
      [[maybe_unused]] constexpr int kUnrolled =
          std::is_same_v<Metric, Power<C>> ? 1 : 8;  // powers are too long to unroll
#pragma unroll kUnrolled
      for (int k = 0; k < depth; ++k)
#pragma unroll
        for (int i = 0; i < kOwn; ++i)
#pragma unroll
          for (int j = 0; j < kOwn; ++j)
            part[i][j] = metric.step(part[i][j], left[(ti + i * kRow) * (kDepth + 1) + k] -
                                                     right[(tj + j * kRow) * (kDepth + 1) + k]);
    }
#pragma unroll
    for (int i = 0; i < kOwn; ++i)
#pragma unroll
      for (int j = 0; j < kOwn; ++j) total[i][j] = metric.join(total[i][j], part[i][j]);
  }
#pragma unroll
  for (int i = 0; i < kOwn; ++i)
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      const std::int64_t at_i = i0 + ti + i * kRow, at_j = j0 + tj + j * kRow;
      if (!pairs.has(at_i, at_j)) continue;
      y[pairs.place(b, at_i, at_j)] =
          metric.is_safe(total[i][j]) ? metric.finish(total[i][j])
                                      : slow_distance(metric, total[i][j], x1 + at_i * pairs.length,
                                                      x2 + at_j * pairs.length, pairs.length);
    }
}

// Gradients: a block has a vector of the left side and a warp's width of its coordinates; its warps
// alternate over the vectors of the other side.
constexpr int kParts = kPairThreads / kWarpSize;

template <class C, class Metric>
__global__ void __launch_bounds__(kPairThreads)
    distance_gradient_kernel(const Pairs<C> __grid_constant__ pairs, const Metric metric,
                             const C* g, const C* y, C* gx) {
  MZ_SHARED(C, room, kPairThreads);
  const Spread spread{.slots = kWarpSize, .parts = kParts, .across = true};
  const Role at = role_in(spread);
  const std::int64_t columns = blocks_for(pairs.length, kWarpSize);
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) / columns;
  const std::int64_t m = static_cast<std::int64_t>(blockIdx.x) % columns * kWarpSize + at.slot;
  const std::int64_t b = row / pairs.left, i = row % pairs.left;
  const bool exists = m < pairs.length;
  const C here = exists ? pairs.x1[row * pairs.length + m] : C(0);
  const C* const others = pairs.x2 + b * pairs.right * pairs.length + m;
  C sum = 0;
  for (std::int64_t j = at.part; exists && j < pairs.right; j += kParts) {
    if (pairs.triangle && i == j) continue;
    const std::int64_t place = pairs.place(b, i, j);
    const C distance = y[place];
    sum += derivative(metric, metric.coefficient(g[place], distance), g[place],
                      here - others[j * pairs.length], distance);
  }
  sum = joined(spread, at, room, sum, Plus{});
  if (exists && at.part == 0) gx[row * pairs.length + m] = sum;
}

/** Calls f(pairs, metric) in the compute type. x1 and x2 are row-major. */
template <class F>
void with_pairs(const Tensor& x1, const Tensor& x2, bool triangle, double p, F&& f) {
  visit_floating_compute(x1.dtype(), [&]<class C>(std::type_identity<C>) {
    const int rank = x1.dim();
    const Pairs<C> pairs{x1.template data<C>(),
                         x2.template data<C>(),
                         triangle ? 1 : x1.size(0),
                         x1.size(rank - 2),
                         x2.size(rank - 2),
                         x1.size(rank - 1),
                         triangle};
    visit_metric<C>(p, [&](const auto& metric) { f(pairs, metric); });
  });
}

void distances(const Tensor& x1, const Tensor& x2, const Tensor& y, bool triangle, double p) {
  if (y.numel() == 0) return;
  with_pairs(
      x1, x2, triangle, p, [&]<class C, class Metric>(const Pairs<C>& pairs, const Metric& metric) {
        const std::int64_t blocks =
            pairs.batch * blocks_for(pairs.left, kPairSide) * blocks_for(pairs.right, kPairSide);
        launch(&distance_kernel<C, Metric>, {.blocks = blocks, .threads = kPairThreads},
               current_stream(y.device()), pairs, metric, y.template data<C>());
      });
}

void gradients(const Tensor& g, const Tensor& y, const Tensor& x1, const Tensor& x2,
               const Tensor& gx, bool triangle, double p) {
  if (gx.numel() == 0) return;
  with_pairs(
      x1, x2, triangle, p, [&]<class C, class Metric>(const Pairs<C>& pairs, const Metric& metric) {
        const std::int64_t blocks = pairs.batch * pairs.left * blocks_for(pairs.length, kWarpSize);
        launch(&distance_gradient_kernel<C, Metric>, {.blocks = blocks, .threads = kPairThreads},
               current_stream(gx.device()), pairs, metric, g.template data<C>(),
               y.template data<C>(), gx.template data<C>());
      });
}

using PairAttrs = op::Pdist::Attrs;

void pair_distance(Inputs in, Outputs out, const PairAttrs& attrs) {
  distances(row_major(in[0]), row_major(in[1]), out[0], false, attrs.p);
}

void pair_distance_backward(Inputs in, Outputs out, const PairAttrs& attrs) {
  gradients(row_major(in[0]), row_major(in[1]), row_major(in[2]), row_major(in[3]), out[0], false,
            attrs.p);
}

void triangle_distance(Inputs in, Outputs out, const PairAttrs& attrs) {
  const Tensor x = row_major(in[0]);
  distances(x, x, out[0], true, attrs.p);
}

void triangle_distance_backward(Inputs in, Outputs out, const PairAttrs& attrs) {
  const Tensor x = row_major(in[2]);
  gradients(row_major(in[0]), row_major(in[1]), x, x, out[0], true, attrs.p);
}

}  // namespace

void attach_pair_distance() {
  attach<op::PairDistance, pair_distance>();
  attach<op::PairDistanceBackward, pair_distance_backward>();
  attach<op::TriangleDistance, triangle_distance>();
  attach<op::TriangleDistanceBackward, triangle_distance_backward>();
}

}  // namespace mezzo::gpu
