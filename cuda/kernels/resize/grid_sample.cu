// The CUDA kernels of grid_sample. Channels share the taps of a grid position. The image's gradient
// is scattered into sums that do not depend on order (exact_sum.h).
#include <algorithm>

#include "../../../tensor/core/dispatch.h"
#include "../../../tensor/cpu/order.h"
#include "../../../tensor/ops/resize/grid_sample_taps_cpu.h"
#include "../../attach.h"
#include "../exact_sum.h"
#include "../move.h"

namespace mezzo::gpu {

namespace {

using cpu_kernels::SampleAxes;
using cpu_kernels::SampleTap;
using cpu_kernels::visit_sampling;

/** Sizes and operands of a call; not all calls use all of them. */
template <int N> struct Sampling {
  op::GridSampleAttrs attrs;
  std::int64_t images, channels, places = 1, plane = 1;
  std::array<std::int64_t, N> sizes;
  std::int64_t per_group;  // channels per thread
  Array x, grid, y;

  Sampling(const Tensor& image, const Tensor& places_of, const Tensor& result,
           const op::GridSampleAttrs& sampling)
      : attrs(sampling),
        images(image.shape()[0]),
        channels(image.shape()[1]),
        x(image),
        grid(places_of),
        y(result) {
    for (int d = 0; d < N; ++d) {
      sizes[static_cast<std::size_t>(d)] = image.shape()[d + 2];
      plane *= image.shape()[d + 2];
      places *= grid_size(places_of, d);
    }
    constexpr std::int64_t kEnough = 512;  // blocks
    const std::int64_t groups =
        std::clamp<std::int64_t>(kEnough / std::max<std::int64_t>(1, place_blocks()), 1,
                                 std::max<std::int64_t>(1, channels));
    per_group = blocks_for(channels, groups);
  }
  static std::int64_t grid_size(const Tensor& grid, int d) { return grid.shape()[d + 1]; }
  std::int64_t place_blocks() const { return blocks_for(images * places, kSpreadThreads); }
  Grid blocks() const {
    return {.blocks = per_group == 0 ? 0 : place_blocks() * blocks_for(channels, per_group),
            .threads = kSpreadThreads};
  }
};

/** The calling thread's grid position and channels. */
struct PlaceWalk {
  std::int64_t at, image = 0, place = 0;  // index of the position among all, its image, its index
                                          // in the image
  std::int64_t first, end;                // channels

  template <int N> __device__ explicit PlaceWalk(const Sampling<N>& s) {
    const std::int64_t blocks = (s.images * s.places + kSpreadThreads - 1) / kSpreadThreads;
    at = static_cast<std::int64_t>(blockIdx.x) % blocks * kSpreadThreads + threadIdx.x;
    first = static_cast<std::int64_t>(blockIdx.x) / blocks * s.per_group;
    end = first + s.per_group < s.channels ? first + s.per_group : s.channels;
    if (at >= s.images * s.places) first = end;
    if (first < end) image = divided(at, s.places, place);
  }
};

template <int slots, class C, int N>
__device__ SampleAxes<C, N, slots> axes_at(const Sampling<N>& s, std::int64_t at) {
  C coordinates[N];
#pragma unroll
  for (int d = 0; d < N; ++d) coordinates[d] = s.grid.template load<C>(at * N + d);
  return SampleAxes<C, N, slots>(coordinates, s.sizes, s.attrs);
}

/** The elements of an array in C, for any dtype. */
template <class C> struct AnyElements {
  const Array& x;
  __device__ C operator[](std::int64_t i) const { return x.load<C>(i); }
};

/** Calls f(elements) with the elements of an array of floating numbers. In f32, loops over them
 *  contain no branch by dtype; in f64 they do, for the sake of the time to compile. */
template <class C, class F> __device__ void with_floating(const Array& x, F&& f) {
  if constexpr (std::is_same_v<C, double>) return f(AnyElements<C>{x});
  if (x.dtype == DType::f16) return f(static_cast<const Half*>(x.data));
  if (x.dtype == DType::bf16) return f(static_cast<const BFloat16*>(x.data));
  f(static_cast<const float*>(x.data));
}

template <class C, int N, int slots>
__global__ void __launch_bounds__(kSpreadThreads)
    sample_kernel(const Sampling<N> __grid_constant__ s) {
  const PlaceWalk walk(s);
  if (walk.first >= walk.end) return;
  const auto axes = axes_at<slots, C>(s, walk.at);
  with_floating<C>(s.x, [&](const auto& x) {
    for (std::int64_t c = walk.first; c < walk.end; ++c) {
      const std::int64_t plane = walk.image * s.channels + c;
      C sum = 0;
      axes.for_each(s.sizes, [&](const SampleTap<C, N>& tap) {
        sum += tap.weight * element_as<C>(x[plane * s.plane + tap.offset]);
      });
      s.y.template store<C>(plane * s.places + walk.place, sum);
    }
  });
}

/** One gradient per coordinate. */
template <class C, int N> struct Slopes {
  C value[N];
  __device__ friend Slopes operator+(Slopes a, const Slopes& b) {
    for (int d = 0; d < N; ++d) a.value[d] += b.value[d];
    return a;
  }
};

/** Computes the gradient of the grid. Lines are positions, whose threads share the channels. s.y is
 *  the incoming gradient. The limit of one block per multiprocessor avoids spills of bicubic
 *  taps. */
template <class C, int N, int slots>
__global__ void __launch_bounds__(kSpreadThreads, 1)
    grid_gradient_kernel(const Sampling<N> __grid_constant__ s, const Spread spread,
                         const Array dgrid) {
  using State = Slopes<C, N>;
  MZ_SHARED(State, room, kSpreadThreads);
  const Role role = role_in(spread);
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * spread.slots + role.slot;
  const bool has_place = at < s.images * s.places;
  State sums{};
  if (has_place) {
    const auto axes = axes_at<slots, C>(s, at);
    std::int64_t place;
    const std::int64_t image = divided(at, s.places, place);
    with_floating<C>(s.x, [&](const auto& x) {
#pragma unroll 1
      for (std::int64_t c = role.part; c < s.channels; c += spread.parts) {
        const std::int64_t plane = image * s.channels + c;
        const C share = s.y.template load<C>(plane * s.places + place);
        axes.for_each(s.sizes, [&](const SampleTap<C, N>& tap) {
          const C term = element_as<C>(x[plane * s.plane + tap.offset]) * share;
#pragma unroll
          for (std::size_t d = 0; d < N; ++d) sums.value[d] += tap.slope[d] * term;
        });
      }
    });
  }
  sums = joined(spread, role, room, sums, cpu_kernels::Plus{});
  if (has_place && role.part == 0)
    for (int d = 0; d < N; ++d) dgrid.store<C>(at * N + d, sums.value[d]);
}

// ---- the image's gradient -----------------------------------------------------------------------

__global__ void __launch_bounds__(kSpreadThreads) clear_kernel(SumWord* words, std::int64_t count) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kSpreadThreads + threadIdx.x;
  if (i < count) words[i] = 0;
}

constexpr std::int64_t kPerBlock = 8192;  // elements per block of largest_kernel

template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    largest_kernel(const Array g, std::int64_t count, const ExactSums sums) {
  MZ_SHARED(double, room, kSpreadThreads);
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * kPerBlock;
  const std::int64_t end = begin + kPerBlock < count ? begin + kPerBlock : count;
  double largest = 0;
  for (std::int64_t i = begin + threadIdx.x; i < end; i += kSpreadThreads) {
    const auto size = static_cast<double>(std::abs(g.load<C>(i)));
    if (size > largest && std::isfinite(size)) largest = size;
  }
  const int thread = static_cast<int>(threadIdx.x);
  largest = joined({.slots = 1, .parts = kSpreadThreads}, {0, thread}, room, largest,
                   cpu_kernels::Greater{});
  if (thread == 0) sums.note_size(largest);
}

template <class C, int N, int slots>
__global__ void __launch_bounds__(kSpreadThreads)
    scatter_kernel(const Sampling<N> __grid_constant__ s, const ExactSums sums) {
  const PlaceWalk walk(s);
  if (walk.first >= walk.end) return;
  const auto axes = axes_at<slots, C>(s, walk.at);
  const int exponent = sums.exponent();
  for (std::int64_t c = walk.first; c < walk.end; ++c) {
    const std::int64_t plane = walk.image * s.channels + c;
    const C share = s.y.template load<C>(plane * s.places + walk.place);
    axes.for_each(s.sizes, [&](const SampleTap<C, N>& tap) {
      sums.add(plane * s.plane + tap.offset, static_cast<double>(tap.weight * share), exponent);
    });
  }
}

template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    settle_kernel(const ExactSums sums, const Array dx, std::int64_t count) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kSpreadThreads + threadIdx.x;
  if (i < count) dx.store<C>(i, static_cast<C>(sums.value(i, sums.exponent())));
}

template <class C, int N, int slots>
void image_gradient(const Sampling<N>& s, const Array& dx, std::int64_t count, Device device) {
  constexpr double kTermsPerPlace = 16, kLargestWeight = 2;
  const Tensor room = workspace(ExactSums::bytes(count), device);
  const ExactSums sums(room, count,
                       kLargestWeight * kTermsPerPlace * static_cast<double>(s.places));
  const runtime::Stream stream = current_stream(device);
  const auto elementwise = [](std::int64_t n) {
    return Grid{.blocks = blocks_for(n, kSpreadThreads), .threads = kSpreadThreads};
  };
  const std::int64_t words = room.numel() / static_cast<std::int64_t>(sizeof(SumWord)),
                     gradients = s.images * s.channels * s.places;
  launch(&clear_kernel, elementwise(words), stream, static_cast<SumWord*>(room.raw_data()), words);
  launch(&largest_kernel<C>,
         {.blocks = blocks_for(gradients, kPerBlock), .threads = kSpreadThreads}, stream, s.y,
         gradients, sums);
  launch(&scatter_kernel<C, N, slots>, s.blocks(), stream, s, sums);
  launch(&settle_kernel<C>, elementwise(count), stream, sums, dx, count);
}

void grid_sample(Inputs in, Outputs out, const op::GridSampleAttrs& attrs) {
  if (out[0].numel() == 0) return;
  const Tensor x = row_major(in[0]), grid = row_major(in[1]);
  visit_sampling(
      out[0].dtype(), x.dim(), attrs.mode,
      [&]<class C, int N, int slots>(std::type_identity<C>, std::integral_constant<int, N>,
                                     std::integral_constant<int, slots>) {
        const Sampling<N> s(x, grid, out[0], attrs);
        launch(&sample_kernel<C, N, slots>, s.blocks(), current_stream(x.device()), s);
      });
}

void grid_sample_backward(Inputs in, Outputs out, const op::GridSampleBackward::Attrs& attrs) {
  const Tensor g = row_major(in[0]), x = row_major(in[1]), grid = row_major(in[2]);
  visit_sampling(
      promoted_dtype(in), x.dim(), attrs.sampling.mode,
      [&]<class C, int N, int slots>(std::type_identity<C>, std::integral_constant<int, N>,
                                     std::integral_constant<int, slots>) {
        const Sampling<N> s(x, grid, g, attrs.sampling);
        if (out[0].numel() > 0)
          image_gradient<C, N, slots>(s, Array(out[0]), out[0].numel(), x.device());
        if (out[1].numel() == 0) return;
        const std::int64_t places = s.images * s.places;
        const Spread spread = spread_over(places, s.channels, true);
        launch(&grid_gradient_kernel<C, N, slots>,
               {.blocks = blocks_for(places, spread.slots), .threads = spread.threads()},
               current_stream(x.device()), s, spread, Array(out[1]));
      });
}

}  // namespace

void attach_grid_sample() {
  attach<op::GridSample, grid_sample>();
  attach<op::GridSampleBackward, grid_sample_backward>();
}

}  // namespace mezzo::gpu
