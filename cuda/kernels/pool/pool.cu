// The CUDA kernels of pooling. Every result element is computed by its own threads: gradients
// gather from the windows that contain the element.
#include <algorithm>

#include "../../../tensor/cpu/order.h"
#include "../../../tensor/math/safe_sum.h"
#include "../../../tensor/ops/pool/pool.h"
#include "../../attach.h"
#include "../found.h"
#include "../items.h"
#include "../lines.h"
#include "../triple.h"
#include "../typed.h"

namespace mezzo::gpu {

namespace {

using cpu_kernels::Above;
using cpu_kernels::Plus;
using op::PoolAttrs;
using op::PoolRange;
using op::PoolSizes;
using op::PoolSpan;

/** The planes of a pooling. Elements of one plane are `channels` apart, interleaved with those of
 *  the other channels' planes; `channels` is 1 for row-major arrays. */
struct Pooling {
  PoolAttrs attrs;
  Triple in, out;  // sizes of a plane of the input and of the output
  std::int64_t channels;
  std::int64_t results;  // elements of the result
  Spread spread;         // over results and their terms
};

/** Positions begin, begin + step, ... in each dimension. */
struct Box {
  Triple begin, count, step;

  /** Calls f(p) for each position of the thread `part` of `parts`, in row-major order. */
  template <class F> __device__ void for_each(int part, int parts, F&& f) const {
    if (parts > 1) {
      const std::int64_t n = count.count();
      for (std::int64_t i = part; i < n; i += parts) {
        Triple p = count.position(i);
#pragma unroll
        for (int d = 0; d < 3; ++d) p.at[d] = begin.at[d] + p.at[d] * step.at[d];
        f(p);
      }
      return;
    }
    Triple p;
    for (std::int64_t i = 0; i < count.at[0]; ++i) {
      p.at[0] = begin.at[0] + i * step.at[0];
      for (std::int64_t j = 0; j < count.at[1]; ++j) {
        p.at[1] = begin.at[1] + j * step.at[1];
        for (std::int64_t k = 0; k < count.at[2]; ++k) {
          p.at[2] = begin.at[2] + k * step.at[2];
          f(p);
        }
      }
    }
  }
};

/** The calling thread's result. Every thread of the block must construct it. */
struct ResultWalk {
  Role at;
  std::int64_t result, group = 0,
                       channel = 0;  // group of interleaved planes and plane within it
  Triple position{};                 // of the result in its plane
  bool has_result;

  __device__ ResultWalk(const Pooling& pool, const Triple& sizes)
      : at(role_in(pool.spread)),
        result(static_cast<std::int64_t>(blockIdx.x) * pool.spread.slots + at.slot),
        has_result(result < pool.results) {
    if (!has_result) return;
    std::int64_t index;
    group = divided(pool.channels > 1 ? divided(result, pool.channels, channel) : result,
                    sizes.count(), index);
    position = sizes.position(index);
  }
  /** Returns the offset of the first element of the result's plane in an array with planes of
   *  `count` elements. */
  __device__ std::int64_t base(const Pooling& pool, std::int64_t count) const {
    return group * count * pool.channels + channel;
  }
  __device__ bool is_first() const { return has_result && at.part == 0; }
};

/** Returns the elements of the window of output position `o`, and sets `counted` to the divisor of
 *  a mean. */
__device__ inline Box window_of(const Pooling& pool, const Triple& o, std::int64_t& counted) {
  Box box{};
  counted = 1;
#pragma unroll
  for (int d = 0; d < 3; ++d) {
    const PoolSpan span = op::pool_span(pool.attrs, d, pool.in.at[d], o.at[d]);
    const std::int64_t step =
        pool.attrs.adaptive ? 1 : pool.attrs.dilation[static_cast<std::size_t>(d)];
    box.begin.at[d] = span.begin;
    box.step.at[d] = step;
    box.count.at[d] = step == 1 ? span.end - span.begin : (span.end - span.begin + step - 1) / step;
    counted *= span.counted;
  }
  if (pool.attrs.divisor > 0) counted = pool.attrs.divisor;
  return box;
}

/** Returns the output positions whose windows may contain the element at `p`. */
__device__ inline Box windows_around(const Pooling& pool, const Triple& p) {
  Box box{.begin = {}, .count = {}, .step = {{1, 1, 1}}};
#pragma unroll
  for (int d = 0; d < 3; ++d) {
    const PoolRange range =
        op::windows_reaching(pool.attrs, d, pool.in.at[d], pool.out.at[d], p.at[d]);
    box.begin.at[d] = range.begin;
    box.count.at[d] = range.end > range.begin ? range.end - range.begin : 0;
  }
  return box;
}

template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    max_kernel(const __grid_constant__ Pooling pool, const Array x, const Array y,
               std::int64_t* positions) {
  MZ_SHARED(Found<C>, room, kSpreadThreads);
  const ResultWalk walk(pool, pool.out);
  Found<C> best{C(0), -1};
  const std::int64_t base = walk.base(pool, pool.in.count());
  if (walk.has_result) {
    std::int64_t counted;
    window_of(pool, walk.position, counted)
        .for_each(walk.at.part, pool.spread.parts, [&](const Triple& p) {
          const std::int64_t i = pool.in.index(p);
          best = first_best<Above>(best, Found<C>{x.load<C>(base + i * pool.channels), i});
        });
  }
  if (pool.spread.parts > 1)
    best = joined(pool.spread, walk.at, room, best,
                  [](Found<C> a, Found<C> b) { return first_best<Above>(a, b); });
  if (!walk.is_first()) return;
  y.store<C>(walk.result, best.value);
  if (positions) positions[walk.result] = best.index;
}

/** Returns the mean of a window whose sum overflowed. Not inlined: this is the slow way. */
template <class C>
__device__ __noinline__ C scaled_mean(const Pooling& pool, const Array& x, const Triple& position,
                                      std::int64_t base) {
  constexpr C kScale = static_cast<C>(0x1p-60);
  C sum = 0;
  std::int64_t counted = 1;
  window_of(pool, position, counted).for_each(0, 1, [&](const Triple& p) {
    sum += x.load<C>(base + pool.in.index(p) * pool.channels) * kScale;
  });
  return sum / static_cast<C>(counted) / kScale;
}

template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    mean_kernel(const __grid_constant__ Pooling pool, const Array x, const Array y) {
  MZ_SHARED(C, room, kSpreadThreads);
  const ResultWalk walk(pool, pool.out);
  C sum = 0;
  std::int64_t counted = 1;
  const std::int64_t base = walk.base(pool, pool.in.count());
  if (walk.has_result)
    window_of(pool, walk.position, counted)
        .for_each(walk.at.part, pool.spread.parts, [&](const Triple& p) {
          sum += x.load<C>(base + pool.in.index(p) * pool.channels);
        });
  if (pool.spread.parts > 1) sum = joined(pool.spread, walk.at, room, sum, Plus{});
  if (!walk.is_first()) return;
  const C mean = math::is_finite(sum) ? sum / static_cast<C>(counted)
                                      : scaled_mean<C>(pool, x, walk.position, base);
  y.store<C>(walk.result, mean);
}

/** Sums the gradients of the windows that selected each element. */
template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    max_backward_kernel(const __grid_constant__ Pooling pool, const Array g,
                        const std::int64_t* positions, const Array gx) {
  MZ_SHARED(C, room, kSpreadThreads);
  const ResultWalk walk(pool, pool.in);
  C sum = 0;
  const std::int64_t base = walk.base(pool, pool.out.count()), own = pool.in.index(walk.position);
  if (walk.has_result)
    windows_around(pool, walk.position)
        .for_each(walk.at.part, pool.spread.parts, [&](const Triple& o) {
          const std::int64_t i = base + pool.out.index(o) * pool.channels;
          if (positions[i] == own) sum += g.load<C>(i);
        });
  if (pool.spread.parts > 1) sum = joined(pool.spread, walk.at, room, sum, Plus{});
  if (walk.is_first()) gx.store<C>(walk.result, sum);
}

/** One dimension of the windows of a max pooling over at most two dimensions, in 32 bits. */
struct PlaneDim {
  std::uint32_t in, out, stride;
  std::int32_t padding, reach;  // the last position of a window minus its first

  /** Returns the first window that may contain position p, and the end of these windows. */
  __device__ std::uint32_t begin(std::uint32_t p) const {
    const std::int32_t first = static_cast<std::int32_t>(p) + padding - reach;
    return first <= 0 ? 0 : (static_cast<std::uint32_t>(first) + stride - 1) / stride;
  }
  __device__ std::uint32_t end(std::uint32_t p) const {
    const std::uint32_t reached = (p + static_cast<std::uint32_t>(padding)) / stride + 1;
    return reached < out ? reached : out;
  }
};

/** A max pooling with fewer than 2^31 elements. A unit is `width` adjacent elements of one
 *  position: channels of a channels-last array, else one element. */
struct PlanePooling {
  PlaneDim y, x;
  std::uint32_t units;  // per position
  std::uint32_t items;  // units of the input
};

/** max_backward_kernel for elements of T in units of `width`: a pack, or 1. */
template <class T, int width>
__global__ void __launch_bounds__(kItemThreads)
    plane_max_backward_kernel(const __grid_constant__ PlanePooling pool, const T* g,
                              const std::int64_t* positions, T* gx) {
  const std::uint32_t item = blockIdx.x * static_cast<std::uint32_t>(kItemThreads) + threadIdx.x;
  if (item >= pool.items) return;
  const std::uint32_t place = item / pool.units, unit = item % pool.units, row = place / pool.x.in,
                      x = place % pool.x.in, plane = row / pool.y.in, y = row % pool.y.in,
                      own = y * pool.x.in + x, last_x = pool.x.end(x), last_y = pool.y.end(y);
  float sum[width] = {};
  for (std::uint32_t j = pool.y.begin(y); j < last_y; ++j)
    for (std::uint32_t i = pool.x.begin(x); i < last_x; ++i) {
      const std::uint32_t at =
          (((plane * pool.y.out + j) * pool.x.out + i) * pool.units + unit) * width;
      float values[width];
      if constexpr (width == 1) {
        values[0] = element_as<float>(g[at]);
        if (static_cast<std::uint32_t>(positions[at]) == own) sum[0] += values[0];
      } else {
        load_values<width>(g + at, values);
#pragma unroll
        for (int k = 0; k < width; k += 2) {  // two positions are a pack
          const PackWords two = *reinterpret_cast<const PackWords*>(positions + at + k);
          if (two.item[0] == own) sum[k] += values[k];
          if (two.item[2] == own) sum[k + 1] += values[k + 1];
        }
      }
    }
  if constexpr (width == 1)
    gx[item] = element_as<T>(sum[0]);
  else
    store_values<width>(gx + item * static_cast<std::uint32_t>(width), sum);
}

/** Sums the contributions of the windows around each element. */
template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    mean_backward_kernel(const __grid_constant__ Pooling pool, const Array g, const Array gx) {
  MZ_SHARED(C, room, kSpreadThreads);
  const ResultWalk walk(pool, pool.in);
  C sum = 0;
  const std::int64_t base = walk.base(pool, pool.out.count());
  if (walk.has_result)
    windows_around(pool, walk.position)
        .for_each(walk.at.part, pool.spread.parts, [&](const Triple& o) {
          std::int64_t counted;
          window_of(pool, o, counted);
          sum += g.load<C>(base + pool.out.index(o) * pool.channels) / static_cast<C>(counted);
        });
  if (pool.spread.parts > 1) sum = joined(pool.spread, walk.at, room, sum, Plus{});
  if (walk.is_first()) gx.store<C>(walk.result, sum);
}

/** Returns the launch plan. Several threads share a result only if it has many terms. */
Pooling pooling_of(const PoolAttrs& attrs, const PoolSizes& in, const PoolSizes& out,
                   const Tensor& result, const Triple& made_of, MemoryFormat format) {
  constexpr std::int64_t kPerThread = 16;
  Pooling pool{attrs, triple(in), triple(out), 1, result.numel(), {}};
  pool.spread = spread_over(pool.results, made_of.count() / kPerThread, false);
  if (format == MemoryFormat::channels_last) {
    pool.channels = result.size(1);
    // The number of threads per result stays the same, so that the order of sums does too.
    pool.spread.across = true;
  }
  return pool;
}

/** Returns the sizes of the largest window. */
Triple window_sizes(const PoolAttrs& attrs, const PoolSizes& in) {
  Triple sizes = triple(attrs.kernel);
  if (attrs.adaptive)
    for (std::size_t d = 0; d < 3; ++d)
      sizes.at[d] = (in[d] + attrs.output[d] - 1) / attrs.output[d];
  return sizes;
}

/** Returns the largest number of windows that contain an element, per dimension. */
Triple overlaps(const PoolAttrs& attrs, const PoolSizes& in) {
  Triple counts;
  for (std::size_t d = 0; d < 3; ++d) {
    const std::int64_t extent = attrs.dilation[d] * (attrs.kernel[d] - 1) + 1;
    counts.at[d] = attrs.adaptive ? (attrs.output[d] + in[d] - 1) / in[d]
                                  : (extent + attrs.stride[d] - 1) / attrs.stride[d];
  }
  return counts;
}

Grid grid_of(const Pooling& pool) {
  return {.blocks = blocks_for(pool.results, pool.spread.slots), .threads = pool.spread.threads()};
}

Pooling forward_pooling(int rank, const Tensor& x, const Tensor& y, const PoolAttrs& attrs,
                        MemoryFormat format) {
  const PoolSizes in = op::pooled_dims(x.shape(), rank);
  return pooling_of(attrs, in, op::pooled_dims(y.shape(), rank), y, window_sizes(attrs, in),
                    format);
}

Pooling backward_pooling(int rank, const Tensor& g, const Tensor& gx, const PoolAttrs& attrs,
                         MemoryFormat format) {
  const PoolSizes in = op::pooled_dims(gx.shape(), rank);
  return pooling_of(attrs, in, op::pooled_dims(g.shape(), rank), gx, overlaps(attrs, in), format);
}

/** Returns dimension d of the pooling. */
PlaneDim plane_dim(const Pooling& pool, std::size_t d) {
  const PoolAttrs& a = pool.attrs;
  return {static_cast<std::uint32_t>(pool.in.at[d]), static_cast<std::uint32_t>(pool.out.at[d]),
          static_cast<std::uint32_t>(a.stride[d]), static_cast<std::int32_t>(a.padding[d]),
          static_cast<std::int32_t>(a.dilation[d] * (a.kernel[d] - 1))};
}

/** Returns true for windows over at most two dimensions whose numbers fit 32 bits. */
bool is_plane(const Pooling& pool, std::int64_t windows) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  const PoolAttrs& a = pool.attrs;
  bool fits = !a.adaptive && pool.spread.parts == 1 && a.kernel[0] == 1 && a.stride[0] == 1 &&
              a.padding[0] == 0 && pool.in.at[0] == pool.out.at[0] && pool.results <= kMost &&
              windows <= kMost;
  for (std::size_t d = 1; d < 3; ++d)
    fits = fits && a.stride[d] <= kMost && a.padding[d] <= kMost && a.dilation[d] <= kMost &&
           a.kernel[d] <= kMost && a.dilation[d] * (a.kernel[d] - 1) <= kMost;
  return fits;
}

/** Launches plane_max_backward_kernel where it serves; returns false for other poolings. */
bool max_backward_of_planes(const Pooling& pool, const Tensor& g, const Tensor& positions,
                            Tensor& gx) {
  const DType dtype = g.dtype();
  if (!is_plane(pool, g.numel()) || (!is_low(dtype) && dtype != DType::f32)) return false;
  const auto is_aligned = [](const Tensor& x) {
    return reinterpret_cast<std::uintptr_t>(x.raw_data()) % 16 == 0;
  };
  const bool packs =
      are_packs(pool.channels, dtype) && is_aligned(g) && is_aligned(positions) && is_aligned(gx);
  visit_packed(dtype, [&]<class T>(std::type_identity<T>) {
    const int width = packs ? kPerPack<T> : 1;
    const PlanePooling plane{plane_dim(pool, 1), plane_dim(pool, 2),
                             static_cast<std::uint32_t>(pool.channels / width),
                             static_cast<std::uint32_t>(pool.results / width)};
    launch_over(
        plane.items, g.device(),
        packs ? &plane_max_backward_kernel<T, kPerPack<T>> : &plane_max_backward_kernel<T, 1>,
        plane, static_cast<const T*>(g.raw_data()), positions.data<std::int64_t>(),
        static_cast<T*>(gx.raw_data()));
  });
  return true;
}

template <int rank> void max_pool(Inputs in, Outputs out, const PoolAttrs& attrs) {
  if (out[0].numel() == 0) return;
  const MemoryFormat format = common_format(in, out[0], rank);
  const Tensor x = to_format(in[0], format);
  const Pooling pool = forward_pooling(rank, x, out[0], attrs, format);
  std::int64_t* const positions = attrs.with_indices ? out[1].data<std::int64_t>() : nullptr;
  visit_floating_compute(x.dtype(), [&]<class C>(std::type_identity<C>) {
    launch(&max_kernel<C>, grid_of(pool), current_stream(x.device()), pool, Array(x), Array(out[0]),
           positions);
  });
}

template <int rank> void mean_pool(Inputs in, Outputs out, const PoolAttrs& attrs) {
  if (out[0].numel() == 0) return;
  const MemoryFormat format = common_format(in, out[0], rank);
  const Tensor x = to_format(in[0], format);
  const Pooling pool = forward_pooling(rank, x, out[0], attrs, format);
  visit_floating_compute(x.dtype(), [&]<class C>(std::type_identity<C>) {
    launch(&mean_kernel<C>, grid_of(pool), current_stream(x.device()), pool, Array(x),
           Array(out[0]));
  });
}

void max_backward(Inputs in, Outputs out, const op::MaxPoolBackward::Attrs& attrs) {
  if (out[0].numel() == 0) return;
  const MemoryFormat format = common_format(in, out[0], attrs.rank);
  const Tensor g = to_format(in[0], format), positions = to_format(in[1], format);
  const Pooling pool = backward_pooling(attrs.rank, g, out[0], attrs.windows, format);
  if (max_backward_of_planes(pool, g, positions, out[0])) return;
  visit_floating_compute(g.dtype(), [&]<class C>(std::type_identity<C>) {
    launch(&max_backward_kernel<C>, grid_of(pool), current_stream(g.device()), pool, Array(g),
           positions.data<std::int64_t>(), Array(out[0]));
  });
}

template <int rank>
void mean_backward(Inputs in, Outputs out, const typename op::AvgPoolBackward<rank>::Attrs& attrs) {
  if (out[0].numel() == 0) return;
  const MemoryFormat format = common_format(in, out[0], rank);
  const Tensor g = to_format(in[0], format);
  const Pooling pool = backward_pooling(rank, g, out[0], attrs.windows, format);
  visit_floating_compute(g.dtype(), [&]<class C>(std::type_identity<C>) {
    launch(&mean_backward_kernel<C>, grid_of(pool), current_stream(g.device()), pool, Array(g),
           Array(out[0]));
  });
}

template <int rank> void attach_rank() {
  attach<op::AdaptiveAvgPool<rank>, mean_pool<rank>>();
  attach<op::AdaptiveMaxPool<rank>, max_pool<rank>>();
  attach<op::AvgPool<rank>, mean_pool<rank>>();
  attach<op::AvgPoolBackward<rank>, mean_backward<rank>>();
  attach<op::MaxPool<rank>, max_pool<rank>>();
}

}  // namespace

void attach_pool() {
  attach_rank<1>();
  attach_rank<2>();
  attach_rank<3>();
  attach<op::MaxPoolBackward, max_backward>();
}

}  // namespace mezzo::gpu
