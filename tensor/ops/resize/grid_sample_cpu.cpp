// Kernels of grid_sample. All channels use the taps of a position. The gradient of the image is
// summed plane by plane, in the order of the positions.
#include "grid_sample.h"

#include "../../core/dispatch.h"
#include "../../cpu/block_io.h"
#include "../../device/parallel.h"
#include "../index/index_list_cpu.h"
#include "grid_sample_taps_cpu.h"

namespace mezzo::op {

namespace {

using namespace cpu_kernels;

/** Positions per chunk of work, and channels that share one computation of the taps. */
constexpr std::int64_t kPlaces = 1024, kChannels = 8;

template <class C> Tensor in_compute(const Tensor& x) { return row_major(x).to(dtype_of<C>()); }

/** Returns the result itself if it has the compute dtype, else a temporary for it. */
template <class C> Tensor room_for(const Tensor& y) {
  return y.dtype() == dtype_of<C>() ? y : empty_tensor(y.shape(), dtype_of<C>(), mezzo::cpu);
}

/** The sizes of the loops. */
template <int N> struct Extents {
  std::int64_t images, channels, places = 1, plane = 1;
  std::array<std::int64_t, N> sizes;

  Extents(const Shape& x, const Shape& grid) : images(x[0]), channels(x[1]) {
    for (int d = 0; d < N; ++d) {
      sizes[static_cast<std::size_t>(d)] = x[d + 2];
      plane *= x[d + 2];
      places *= grid[d + 1];
    }
  }
};

template <class C, int N, int slots>
void sample(const Tensor& x, const Tensor& grid, const Tensor& y, const GridSampleAttrs& attrs) {
  const Extents<N> e(x.shape(), grid.shape());
  const C* const from = x.data<C>();
  const C* const coordinates = grid.data<C>();
  C* const to = y.data<C>();
  parallel_chunks(
      e.images * e.places, kPlaces,
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t p = begin; p < end; ++p) {
          const std::int64_t image = p / e.places, place = p % e.places;
          const SampleTaps<C, N, slots> taps(coordinates + p * N, e.sizes, attrs);
          for (std::int64_t c = 0; c < e.channels; ++c) {
            const C* const plane = from + (image * e.channels + c) * e.plane;
            C sum = 0;
            for (const SampleTap<C, N>& tap : taps) sum += tap.weight * plane[tap.offset];
            to[(image * e.channels + c) * e.places + place] = sum;
          }
        }
      },
      40 + 5 * static_cast<double>(e.channels));
}

template <class C, int N, int slots>
void sample_backward_x(const Tensor& g, const Tensor& grid, const Tensor& dx,
                       const GridSampleAttrs& attrs) {
  const Extents<N> e(dx.shape(), grid.shape());
  const C* const from = g.data<C>();
  const C* const coordinates = grid.data<C>();
  C* const to = dx.data<C>();
  const std::int64_t groups = (e.channels + kChannels - 1) / kChannels;
  parallel_for(
      e.images * groups,
      [&](std::int64_t panel) {
        const std::int64_t image = panel / groups, first = panel % groups * kChannels,
                           end = std::min(first + kChannels, e.channels);
        C* const planes = to + image * e.channels * e.plane;
        std::fill(planes + first * e.plane, planes + end * e.plane, C(0));
        for (std::int64_t place = 0; place < e.places; ++place) {
          const SampleTaps<C, N, slots> taps(coordinates + (image * e.places + place) * N, e.sizes,
                                             attrs);
          for (std::int64_t c = first; c < end; ++c) {
            const C share = from[(image * e.channels + c) * e.places + place];
            for (const SampleTap<C, N>& tap : taps)
              planes[c * e.plane + tap.offset] += tap.weight * share;
          }
        }
      },
      static_cast<double>(e.images * e.places) * (40 + 5 * static_cast<double>(e.channels)));
}

template <class C, int N, int slots>
void sample_backward_grid(const Tensor& g, const Tensor& x, const Tensor& grid, const Tensor& dgrid,
                          const GridSampleAttrs& attrs) {
  const Extents<N> e(x.shape(), grid.shape());
  const C *const image_data = x.data<C>(), *const gradients = g.data<C>(),
                 *const coordinates = grid.data<C>();
  C* const to = dgrid.data<C>();
  parallel_chunks(
      e.images * e.places, kPlaces,
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t p = begin; p < end; ++p) {
          const std::int64_t image = p / e.places, place = p % e.places;
          const SampleTaps<C, N, slots> taps(coordinates + p * N, e.sizes, attrs);
          std::array<C, N> sums{};
          for (std::int64_t c = 0; c < e.channels; ++c) {
            const C* const plane = image_data + (image * e.channels + c) * e.plane;
            const C share = gradients[(image * e.channels + c) * e.places + place];
            for (const SampleTap<C, N>& tap : taps)
              for (std::size_t d = 0; d < N; ++d)
                sums[d] += tap.slope[d] * plane[tap.offset] * share;
          }
          std::copy(sums.begin(), sums.end(), to + p * N);
        }
      },
      40 + 10 * static_cast<double>(e.channels));
}

}  // namespace

void GridSample::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  if (out[0].numel() == 0) return;
  const CastScope no_casts(nullptr);
  visit_sampling(
      out[0].dtype(), in[0].dim(), attrs.mode,
      [&]<class C, int N, int slots>(std::type_identity<C>, std::integral_constant<int, N>,
                                     std::integral_constant<int, slots>) {
        const Tensor y = room_for<C>(out[0]);
        sample<C, N, slots>(in_compute<C>(in[0]), in_compute<C>(in[1]), y, attrs);
        if (!y.is_same(out[0])) copy_values(y, out[0]);
      });
}

void GridSampleBackward::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  const CastScope no_casts(nullptr);
  const DType compute = promoted_dtype(in);
  visit_sampling(
      compute, in[1].dim(), attrs.sampling.mode,
      [&]<class C, int N, int slots>(std::type_identity<C>, std::integral_constant<int, N>,
                                     std::integral_constant<int, slots>) {
        const Tensor g = in_compute<C>(in[0]), x = in_compute<C>(in[1]),
                     grid = in_compute<C>(in[2]);
        if (out[0].numel() > 0) {
          const Tensor dx = room_for<C>(out[0]);
          sample_backward_x<C, N, slots>(g, grid, dx, attrs.sampling);
          if (!dx.is_same(out[0])) copy_values(dx, out[0]);
        }
        if (out[1].numel() > 0) {
          const Tensor dgrid = room_for<C>(out[1]);
          sample_backward_grid<C, N, slots>(g, x, grid, dgrid, attrs.sampling);
          if (!dgrid.is_same(out[1])) copy_values(dgrid, out[1]);
        }
      });
}

}  // namespace mezzo::op
