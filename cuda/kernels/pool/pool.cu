// The CUDA kernels of pooling. Every result element is computed by its own threads: gradients
// gather from the windows that contain the element.
#include "../../../tensor/ops/pool/pool.h"

#include <algorithm>

#include "../../../tensor/cpu/order.h"
#include "../../attach.h"
#include "../reduce/reduce.h"
#include "pooling.h"

namespace mezzo::gpu {

namespace {

using cpu_kernels::Above;
using cpu_kernels::Plus;
using op::PoolSizes;

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

/** The positions of the maxima, in the window (u8) or in the plane (i64), or none. */
struct Positions {
  PoolPositions kind = PoolPositions::none;
  void* data = nullptr;

  explicit Positions(PoolPositions its_kind, const Tensor& x)
      : kind(its_kind), data(kind == PoolPositions::none ? nullptr : x.raw_data()) {}

  /** Returns the position of the element at p in the window of output position o, or, if the
   *  window does not contain it, -1. */
  static __device__ std::int64_t in_window(const PoolAttrs& attrs, const Triple& o,
                                           const Triple& p) {
    std::int64_t position = 0;
    for (int d = 0; d < 3; ++d) {
      const auto a = static_cast<std::size_t>(d);
      const std::int64_t at = p.at[d] - (o.at[d] * attrs.stride[a] - attrs.padding[a]);
      if (at % attrs.dilation[a] != 0) return -1;
      position = position * attrs.kernel[a] + at / attrs.dilation[a];
    }
    return position;
  }
  /** Stores that of result i, at o: the element `index` of the plane. */
  __device__ void store(const Pooling& pool, std::int64_t i, const Triple& o,
                        std::int64_t index) const {
    if (kind == PoolPositions::in_plane)
      static_cast<std::int64_t*>(data)[i] = index;
    else if (kind == PoolPositions::in_window)
      static_cast<std::uint8_t*>(data)[i] =
          static_cast<std::uint8_t>(in_window(pool.attrs, o, pool.in.position(index)));
  }
  /** Returns true if that of result i, at o, is the element at p. */
  __device__ bool is_at(const Pooling& pool, std::int64_t i, const Triple& o,
                        const Triple& p) const {
    if (kind == PoolPositions::in_plane)
      return static_cast<const std::int64_t*>(data)[i] == pool.in.index(p);
    return static_cast<const std::uint8_t*>(data)[i] == in_window(pool.attrs, o, p);
  }
};

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
    max_kernel(const Pooling __grid_constant__ pool, const Array x, const Array y,
               const Positions positions) {
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
  positions.store(pool, walk.result, walk.position, best.index);
}

template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    mean_kernel(const Pooling __grid_constant__ pool, const Array x, const Array y) {
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
    max_backward_kernel(const Pooling __grid_constant__ pool, const Array g,
                        const Positions positions, const Array gx) {
  MZ_SHARED(C, room, kSpreadThreads);
  const ResultWalk walk(pool, pool.in);
  C sum = 0;
  const std::int64_t base = walk.base(pool, pool.out.count());
  if (walk.has_result)
    windows_around(pool, walk.position)
        .for_each(walk.at.part, pool.spread.parts, [&](const Triple& o) {
          const std::int64_t i = base + pool.out.index(o) * pool.channels;
          if (positions.is_at(pool, i, o, walk.position)) sum += g.load<C>(i);
        });
  if (pool.spread.parts > 1) sum = joined(pool.spread, walk.at, room, sum, Plus{});
  if (walk.is_first()) gx.store<C>(walk.result, sum);
}

/** Sums the contributions of the windows around each element. */
template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    mean_backward_kernel(const Pooling __grid_constant__ pool, const Array g, const Array gx) {
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
  return {static_cast<std::uint32_t>(pool.in.at[d]),
          static_cast<std::uint32_t>(pool.out.at[d]),
          static_cast<std::uint32_t>(a.stride[d]),
          static_cast<std::uint32_t>(a.kernel[d]),
          static_cast<std::uint32_t>(a.dilation[d]),
          static_cast<std::int32_t>(a.padding[d]),
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

/** Returns true if all arrays begin at a multiple of `bytes`. */
bool are_aligned(std::initializer_list<const void*> arrays, std::size_t bytes) {
  return std::all_of(arrays.begin(), arrays.end(), [&](const void* data) {
    return reinterpret_cast<std::uintptr_t>(data) % bytes == 0;
  });
}

/** Returns true for the windows of PairPooling, and sets `pairs` to them. `x` has two elements of a
 *  word, the positions are those in windows, or none. */
bool are_pairs(const Pooling& pool, const Positions& positions, const void* x, std::size_t word,
               PairPooling& pairs) {
  if (pool.channels != 1 || positions.kind == PoolPositions::in_plane || !are_aligned({x}, word) ||
      !pool.attrs.are_pairs())
    return false;
  for (std::size_t d = 1; d < 3; ++d)
    if (pool.in.at[d] != 2 * pool.out.at[d]) return false;
  pairs = {static_cast<std::uint32_t>(pool.results / pool.out.at[2]),
           static_cast<std::uint32_t>(pool.out.at[2])};
  return true;
}

/** Calls f(type of the elements, width of a unit, PlanePooling) for a pooling of planes. */
template <class F> void visit_plane(const Pooling& pool, DType dtype, bool aligned, F&& f) {
  visit_packed(dtype, [&]<class T>(std::type_identity<T> type) {
    const auto of_width = [&]<int width>(std::integral_constant<int, width> units) {
      const PlanePooling plane{plane_dim(pool, 1), plane_dim(pool, 2),
                               static_cast<std::uint32_t>(pool.channels / width),
                               static_cast<std::uint32_t>(pool.results / width)};
      f(type, units, plane);
    };
    if (aligned && are_packs(pool.channels, dtype))
      of_width(std::integral_constant<int, kPerPack<T>>{});
    else
      of_width(std::integral_constant<int, 1>{});
  });
}

/** Launches the kernels of planes where they serve; returns false for other poolings. */
bool max_of_planes(const Pooling& pool, const Tensor& x, const Tensor& y,
                   const Positions& positions) {
  const DType dtype = x.dtype();
  if (!is_plane(pool, x.numel()) || (!is_low(dtype) && dtype != DType::f32)) return false;
  PairPooling pairs;
  if (are_pairs(pool, positions, x.raw_data(), 2 * item_size(dtype), pairs)) {
    visit_packed(dtype, [&]<class T>(std::type_identity<T>) {
      launch_over(pairs.items(), x.device(), &pair_max_kernel<T>, pairs,
                  static_cast<const Two<T>*>(x.raw_data()), static_cast<T*>(y.raw_data()),
                  static_cast<std::uint8_t*>(positions.data));
    });
    return true;
  }
  visit_plane(pool, dtype, are_aligned({x.raw_data(), y.raw_data(), positions.data}, 16),
              [&]<class T, int width>(std::type_identity<T>, std::integral_constant<int, width>,
                                      const PlanePooling& plane) {
                const auto start = [&]<class P>(P* places) {
                  launch_over(plane.items, x.device(), &plane_max_kernel<T, width, P>, plane,
                              static_cast<const T*>(x.raw_data()), static_cast<T*>(y.raw_data()),
                              places);
                };
                if (positions.kind == PoolPositions::in_plane)
                  start(static_cast<std::int64_t*>(positions.data));
                else
                  start(static_cast<std::uint8_t*>(positions.data));
              });
  return true;
}

/** Does the same for the gradient. */
bool max_backward_of_planes(const Pooling& pool, const Tensor& g, const Positions& positions,
                            const Tensor& gx) {
  const DType dtype = g.dtype();
  if (!is_plane(pool, g.numel()) || (!is_low(dtype) && dtype != DType::f32)) return false;
  PairPooling pairs;
  Pooling windows = pool;
  windows.results = g.numel();
  if (are_pairs(windows, positions, gx.raw_data(), 2 * item_size(dtype), pairs)) {
    visit_packed(dtype, [&]<class T>(std::type_identity<T>) {
      launch_over(pairs.items(), g.device(), &pair_max_backward_kernel<T>, pairs,
                  static_cast<const T*>(g.raw_data()),
                  static_cast<const std::uint8_t*>(positions.data),
                  static_cast<Two<T>*>(gx.raw_data()));
    });
    return true;
  }
  visit_plane(pool, dtype, are_aligned({g.raw_data(), positions.data, gx.raw_data()}, 16),
              [&]<class T, int width>(std::type_identity<T>, std::integral_constant<int, width>,
                                      const PlanePooling& plane) {
                const auto start = [&]<class P>(const P* places) {
                  launch_over(plane.items, g.device(), &plane_max_backward_kernel<T, width, P>,
                              plane, static_cast<const T*>(g.raw_data()), places,
                              static_cast<T*>(gx.raw_data()));
                };
                if (positions.kind == PoolPositions::in_plane)
                  start(static_cast<const std::int64_t*>(positions.data));
                else
                  start(static_cast<const std::uint8_t*>(positions.data));
              });
  return true;
}

/** Returns windows of a given size for adaptive ones that divide the input. */
PoolAttrs fixed_windows(const PoolAttrs& attrs, const PoolSizes& in, const PoolSizes& out) {
  if (!attrs.adaptive) return attrs;
  PoolAttrs fixed;
  for (std::size_t d = 0; d < 3; ++d) {
    if (in[d] % out[d] != 0) return attrs;
    fixed.kernel[d] = fixed.stride[d] = in[d] / out[d];
  }
  return fixed;
}

/** Calls f(type of the elements, width of a unit, PlaneMeans) and returns true if the kernels of
 *  planes serve for a mean; `elements` are those of x, or of g. */
template <class F>
bool visit_means(const Pooling& pool, DType dtype, std::int64_t elements, bool aligned, F&& f) {
  const PoolAttrs& a = pool.attrs;
  if (!is_plane(pool, elements) || (!is_low(dtype) && dtype != DType::f32) ||
      std::max(a.kernel[1] * a.kernel[2], a.divisor) > std::int64_t{1} << 30)
    return false;
  visit_plane(pool, dtype, aligned, [&](auto type, auto width, const PlanePooling& plane) {
    f(type, width, PlaneMeans{plane, static_cast<std::uint32_t>(a.divisor), a.count_include_pad});
  });
  return true;
}

template <int rank> void max_pool(Inputs in, Outputs out, const PoolAttrs& attrs) {
  if (out[0].numel() == 0) return;
  const MemoryFormat format = common_format(in, out[0], rank);
  const Tensor x = to_format(in[0], format);
  const Pooling pool = forward_pooling(rank, x, out[0], attrs, format);
  const Positions positions(attrs.positions, out[1]);
  if (max_of_planes(pool, x, out[0], positions)) return;
  visit_floating_compute(x.dtype(), [&]<class C>(std::type_identity<C>) {
    launch(&max_kernel<C>, grid_of(pool), current_stream(x.device()), pool, Array(x), Array(out[0]),
           positions);
  });
}

template <int rank> void mean_pool(Inputs in, Outputs out, const PoolAttrs& attrs) {
  if (out[0].numel() == 0) return;
  const MemoryFormat format = common_format(in, out[0], rank);
  const Tensor x = to_format(in[0], format), &y = out[0];
  const PoolAttrs windows =
      fixed_windows(attrs, op::pooled_dims(x.shape(), rank), op::pooled_dims(y.shape(), rank));
  const Pooling pool = forward_pooling(rank, x, y, windows, format);
  const bool done = visit_means(
      pool, x.dtype(), x.numel(), are_aligned({x.raw_data(), y.raw_data()}, 16),
      [&]<class T, int width>(std::type_identity<T>, std::integral_constant<int, width>,
                              const PlaneMeans& means) {
        launch_over(means.items, x.device(), &plane_mean_kernel<T, width>, means, pool,
                    static_cast<const T*>(x.raw_data()), static_cast<T*>(y.raw_data()), Array(x));
      });
  if (done) return;
  visit_floating_compute(x.dtype(), [&]<class C>(std::type_identity<C>) {
    launch(&mean_kernel<C>, grid_of(pool), current_stream(x.device()), pool, Array(x),
           Array(out[0]));
  });
}

void max_backward(Inputs in, Outputs out, const op::MaxPoolBackward::Attrs& attrs) {
  if (out[0].numel() == 0) return;
  const MemoryFormat format = common_format(in, out[0], attrs.rank);
  const Tensor g = to_format(in[0], format), places = to_format(in[1], format);
  const Positions positions(attrs.windows.positions, places);
  const Pooling pool = backward_pooling(attrs.rank, g, out[0], attrs.windows, format);
  if (max_backward_of_planes(pool, g, positions, out[0])) return;
  visit_floating_compute(g.dtype(), [&]<class C>(std::type_identity<C>) {
    launch(&max_backward_kernel<C>, grid_of(pool), current_stream(g.device()), pool, Array(g),
           positions, Array(out[0]));
  });
}

template <int rank>
void mean_backward(Inputs in, Outputs out, const typename op::AvgPoolBackward<rank>::Attrs& attrs) {
  if (out[0].numel() == 0) return;
  const MemoryFormat format = common_format(in, out[0], rank);
  const Tensor g = to_format(in[0], format);
  const Tensor& gx = out[0];
  const PoolAttrs windows =
      fixed_windows(attrs.windows, attrs.sizes, op::pooled_dims(g.shape(), rank));
  const Pooling pool = backward_pooling(rank, g, gx, windows, format);
  const bool done = visit_means(
      pool, g.dtype(), g.numel(), are_aligned({g.raw_data(), gx.raw_data()}, 16),
      [&]<class T, int width>(std::type_identity<T>, std::integral_constant<int, width>,
                              const PlaneMeans& means) {
        launch_over(means.items, g.device(), &plane_mean_backward_kernel<T, width>, means,
                    static_cast<const T*>(g.raw_data()), static_cast<T*>(gx.raw_data()));
      });
  if (done) return;
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
