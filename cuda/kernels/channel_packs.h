// Batch norm of row-major tensors, and of tensors in evaluation, and group norm, in packs of 16
// bytes, or of 8: the kernels of channel_norm.h for tensors [samples, channels, inner] whose
// `inner` elements are whole packs. The elements that a ChannelWalk visits are packs here; `width`
// is the number of a pack's elements.
#pragma once

#include "channel_rows.h"
#include "host_map.h"

namespace mezzo::gpu {

/** Returns true if the elements of one channel and sample are whole packs, in 16 bits also of 8
 *  bytes. Operands are copied to aligned memory, so that bits depend on the shape alone. */
inline bool takes_runs(const Sizes& s, DType dtype) {
  return s.samples * s.channels > 0 &&
         (are_packs(s.inner, dtype) ||
          (is_low(dtype) && s.inner % 4 == 0 && are_packs(2 * s.inner, dtype)));
}

/** Calls f(std::type_identity<T>{}, width) with the storage type and the width, a constant, of
 *  tensors that takes_runs() takes. */
template <class F> void visit_runs(const Sizes& s, DType dtype, F&& f) {
  visit_packed(dtype, [&]<class T>(std::type_identity<T> type) {
    if constexpr (sizeof(T) == 2)
      if (s.inner % kPerPack<T> != 0) return f(type, std::integral_constant<int, 4>{});
    f(type, std::integral_constant<int, kPerPack<T>>{});
  });
}

/** 16-byte packs that a thread loads before it computes; in the gradient by large blocks, for which
 *  there are fewer registers. */
inline constexpr int kRunPacks = 2, kWholePacks = 1;
/** The same in packs of `width` elements. */
template <class T, int width> inline constexpr int kRunBatch = kRunPacks * kPerPack<T> / width;
template <class T, int width> inline constexpr int kWholeBatch = kWholePacks * kPerPack<T> / width;

/** Loads the first n of `most` packs of T. */
template <int most, int width, class T>
__device__ void load_packs(const T* from, const std::int64_t* places, int n,
                           WordsOf<T, width> (&packs)[most]) {
#pragma unroll
  for (int j = 0; j < most; ++j)
    if (j < n) packs[j] = reinterpret_cast<const WordsOf<T, width>*>(from)[places[j]];
}

/** Calls f(i, values, first element) for the packs of T at the first n of `most` places; i is a
 *  constant. */
template <int most, int width, class T, class F>
__device__ void for_packs(const T* x, const std::int64_t* places, int n, F&& f) {
  WordsOf<T, width> packs[most];
  load_packs<most, width>(x, places, n, packs);
#pragma unroll
  for (int j = 0; j < most; ++j) {
    if (j >= n) continue;
    float values[width];
    widen_part<width, T>(packs[j], values);
    f(j, values, places[j] * width);
  }
}

// ---- forward ------------------------------------------------------------------------------------

/** Returns the moments of the block's part of each of its channels, to all their threads. */
template <int width, class T>
__device__ MomentsState<float> pack_moments_over(const ChannelWalk& walk, const T* x,
                                                 MomentsState<float>* room) {
  constexpr int kMost = kRunBatch<T, width>;
  const CombineMoments<float> combine;
  MomentsState<float> state{0, 0, 0};
  walk.template for_each_batch<kMost>([&](const std::int64_t* places, int n) {
    float values[kMost][width] = {};
    for_packs<kMost, width>(x, places, n, [&](int j, const float(&v)[width], std::int64_t) {
#pragma unroll
      for (int k = 0; k < width; ++k) values[j][k] = v[k];
    });
    float sum = 0, squares = 0, share = 1.0f / width;
#pragma unroll
    for (int j = 0; j < kMost; ++j) {
#pragma unroll
      for (int k = 0; k < width; ++k) sum += values[j][k];
      if (j < n) share = 1.0f / static_cast<float>((j + 1) * width);
    }
    const float count = static_cast<float>(n * width), mean = sum * share;
#pragma unroll
    for (int j = 0; j < kMost; ++j)
#pragma unroll
      for (int k = 0; k < width; ++k)
        if (j < n) squares += (values[j][k] - mean) * (values[j][k] - mean);
    state = combine(state, MomentsState<float>{count, mean, squares});
  });
  return joined(walk.all.spread, walk.at, room, state, combine);
}

/** normalise_runs() for packs. */
template <int width, class T>
__device__ void normalise_packs(const Normalisation<float>& norm, const RowTail<T>& tail,
                                const ChannelWalk& walk, const Statistics<float>& of) {
  constexpr int kMost = kRunBatch<T, width>;
  const float mean = of.mean, rstd = of.rstd(norm.eps);
  norm.keep(walk, of);
  if (!walk.has_channel()) return;
  const std::int64_t own = norm.sharing.weight(walk.channel);
  const float scale = norm.weight.load_or(own, 1.0f) * rstd, shift = norm.bias.load_or(own, 0.0f);
  walk.template for_each_batch<kMost>([&](const std::int64_t* places, int n) {
    for_packs<kMost, width>(static_cast<const T*>(norm.x.data), places, n,
                            [&](int, float(&values)[width], std::int64_t at) {
#pragma unroll
                              for (int k = 0; k < width; ++k)
                                values[k] = op::normalised(values[k], mean, scale, shift);
                              tail.apply(at, values);
                              store_values<width>(static_cast<T*>(norm.y.data) + at, values);
                            });
  });
}

template <class T, int width>
__global__ void __launch_bounds__(kWholeThreads)
    packed_whole_norm_kernel(const Normalisation<float> __grid_constant__ norm,
                             const RowTail<T> tail) {
  MZ_SHARED(MomentsState<float>, room, kWholeThreads);
  const ChannelWalk walk(norm.runs);
  const auto* const x = static_cast<const T*>(norm.x.data);
  const MomentsState<float> state = pack_moments_over<width>(walk, x, room);
  normalise_packs<width>(norm, tail, walk, norm.statistics(walk, walk.channel, state, room));
}

template <class T, int width>
__global__ void __launch_bounds__(kSpreadThreads)
    packed_run_moments_kernel(const Channels __grid_constant__ lines, const T* x,
                              MomentsState<float>* partial) {
  MZ_SHARED(MomentsState<float>, room, kSpreadThreads);
  const ChannelWalk walk(lines);
  const MomentsState<float> state = pack_moments_over<width>(walk, x, room);
  if (walk.is_first()) partial[walk.channel * lines.chunks + walk.chunk] = state;
}

/** normalise_kernel() for packs. */
template <class T, int width>
__global__ void __launch_bounds__(kSpreadThreads)
    packed_run_norm_kernel(const Normalisation<float> __grid_constant__ norm,
                           const RowTail<T> tail) {
  MZ_SHARED(MomentsState<float>, room, kSpreadThreads);
  const ChannelWalk walk(norm.runs);
  const std::int64_t statistic = norm.sharing.statistic(walk.channel);
  Statistics<float> of;
  if (norm.partial) {
    of = norm.statistics(
        walk, statistic,
        joined_chunks(walk, room, norm.partial, norm.chunks, statistic, CombineMoments<float>{}),
        room);
  } else if (walk.has_channel()) {
    of.mean = norm.given_mean.load<float>(statistic);
    of.var = norm.given_var.load<float>(statistic);
  }
  normalise_packs<width>(norm, tail, walk, of);
}

/** normalise() for packs; norm.runs and `statistics` have their width. */
template <int width, class T>
void normalise_in_packs(Normalisation<float> norm, const RowTail<T>& tail,
                        const Channels* statistics, Device device) {
  const runtime::Stream stream = current_stream(device);
  Tensor room;
  if (statistics) {
    const std::int64_t states = statistics->channels * statistics->chunks;
    room = workspace(states * static_cast<std::int64_t>(sizeof(MomentsState<float>)), device);
    auto* const partial = static_cast<MomentsState<float>*>(room.raw_data());
    launch(&packed_run_moments_kernel<T, width>, grid_of(*statistics), stream, *statistics,
           static_cast<const T*>(norm.x.data), partial);
    norm.partial = partial;
    norm.chunks = statistics->chunks;
    norm.lines = StatisticLines(*statistics);
  }
  launch(&packed_run_norm_kernel<T, width>, grid_of(norm.runs), stream, norm, tail);
}

// ---- gradients ----------------------------------------------------------------------------------

/** The windows of a max pooling, whose gradient is given in place of that of the input: of 2 x 2
 *  elements, side by side, which cover row-major planes of fewer than 2^31 elements. */
struct PooledPairs {
  static constexpr std::uint32_t kLeast = 4;  // windows of a row: a pack is in two rows at most
  const std::uint8_t* positions = nullptr;    // of the maxima in their windows; null: no pooling
  Divider row = {};                           // by the windows of a row
};

/** Computes the pack of `width` elements at a place that max_pool_backward would write, from the
 *  gradient g of the maxima. Two elements of the pack are half a window. */
template <int width, class T>
__device__ void unpool(const PooledPairs& pool, const T* g, std::int64_t place,
                       float (&values)[width]) {
  constexpr std::uint32_t kPairs = width / 2;
  const std::uint32_t pair = static_cast<std::uint32_t>(place) * kPairs,
                      row = pool.row.quotient(pair), end = (row + 1) * pool.row.by,
                      half = (row & 1) * 2,  // the first position of the pairs in this row
      first = pair - ((row + 1) >> 1) * pool.row.by,
                      next = half ? first : first - pool.row.by;  // if they are in the next row
#pragma unroll
  for (std::uint32_t k = 0; k < kPairs; ++k) {
    const bool goes_on = pair + k < end;
    const std::uint32_t at = (goes_on ? first : next) + k,
                        element = pool.positions[at] ^ (goes_on ? half : half ^ 2);
    const float value = element_as<float>(g[at]) + 0.0f;  // -0 becomes 0
    values[2 * k] = element == 0 ? value : 0.0f;
    values[2 * k + 1] = element == 1 ? value : 0.0f;
  }
}

/** The operands of the gradients of runs. */
template <class T> struct RunGradients {
  const T *g, *x;
  T* gx;
  RowGate<T> gate;
  NormBackward<float> norm;
  PooledPairs pool = {};  // g is the gradient of their maxima
};

/** Returns the operands of `norm` for runs of T. */
template <class T>
RunGradients<T> run_gradients(const NormBackward<float>& norm, const RowGate<T>& gate = {}) {
  return {.g = static_cast<const T*>(norm.g.data),
          .x = static_cast<const T*>(norm.x.data),
          .gx = static_cast<T*>(norm.gx.data),
          .gate = gate,
          .norm = norm};
}

/** Calls f(g, x, first element) for the packs of the calling thread; g after the gate, which the
 *  first pass stores. Without `reads_x` x is the mean. A `pooled` gradient has no gate, or one that
 *  is recomputed. */
template <int most, int width, bool pooled, bool is_first, class T, class F>
__device__ void for_gated_packs(const RunGradients<T>& of, const ChannelWalk& walk,
                                const RunCoefficients<float>& run, bool reads_x, F&& f) {
  const RowGate<T>& gate = of.gate;
  const bool recomputes = gate.recomputes();
  const T* const from = !is_first && gate.y ? gate.g_residual : of.g;
  walk.template for_each_batch<most>([&](const std::int64_t* places, int n) {
    WordsOf<T, width> from_x[most];
    if (reads_x || recomputes) load_packs<most, width>(of.x, places, n, from_x);
    const auto gated = [&](int j, float(&g)[width], std::int64_t at) {
      float x[width];
      if (reads_x || recomputes)
        widen_part<width, T>(from_x[j], x);
      else
#pragma unroll
        for (int k = 0; k < width; ++k) x[k] = run.mean;
      if (!pooled && is_first && gate.y) {
        float y[width];
        load_part<width>(gate.y + at, y);
        if (gate.other) {
          float other[width];
          load_part<width>(gate.other + at, other);
          add_rounded<T>(other, g);
        }
        gate.template apply<width>(y, g);
        store_values<width>(gate.g_residual + at, g);
      } else if (recomputes) {
#pragma unroll
        for (int k = 0; k < width; ++k)
          if (op::normalised(x[k], run.mean, run.scale, run.shift) <= gate.zero) g[k] = 0;
      }
      f(g, x, at);
    };
    if constexpr (pooled) {
#pragma unroll
      for (int j = 0; j < most; ++j) {
        if (j >= n) continue;
        float g[width];
        unpool<width>(of.pool, of.g, places[j], g);
        gated(j, g, places[j] * width);
      }
    } else {
      for_packs<most, width>(from, places, n, gated);
    }
  });
}

/** Returns the sums over the block's part of each of its channels, to all their threads. */
template <int most, int width, bool pooled, class T>
__device__ GradientSums<float> pack_sums_over(const RunGradients<T>& of, const ChannelWalk& walk,
                                              const RunCoefficients<float>& run,
                                              GradientSums<float>* room) {
  GradientSums<float> sums;
  for_gated_packs<most, width, pooled, true>(
      of, walk, run, true, [&](const float(&g)[width], const float(&x)[width], std::int64_t) {
#pragma unroll
        for (int k = 0; k < width; ++k)
          sums = sums + GradientSums<float>{g[k], g[k] * (x[k] - run.mean)};
      });
  return joined(of.norm.runs.spread, walk.at, room, sums, Plus{});
}

/** differentiate_runs() for packs. */
template <int most, int width, bool pooled, class T>
__device__ void differentiate_packs(const RunGradients<T>& of, const ChannelWalk& walk,
                                    const RunCoefficients<float>& run,
                                    const GradientSums<float>& sums) {
  if (!walk.has_channel()) return;
  const NormBackward<float>& norm = of.norm;
  if (norm.gw && walk.at.part == 0 && walk.chunk == 0) {
    norm.gw[walk.channel] = sums.gx * run.rstd;
    norm.gb[walk.channel] = sums.g;
  }
  const bool through = norm.through_statistics;
  const float scale = run.scale, of_sums = norm.sums_are_weighted ? run.rstd : scale;
  const float unit = through ? op::unit_of(run.rstd) : 1.0f, centre = run.mean * unit;
  const float shift = through ? of_sums * (sums.g / norm.count) : 0.0f,
              from_x = through ? op::slope_of(of_sums, run.rstd, sums.gx / norm.count, unit) : 0.0f;
  for_gated_packs<most, width, pooled, false>(
      of, walk, run, through, [&](const float(&g)[width], const float(&x)[width], std::int64_t at) {
        float gx[width];
#pragma unroll
        for (int k = 0; k < width; ++k)
          gx[k] =
              g[k] * scale - shift - deviation(through ? x[k] : run.mean, unit, centre) * from_x;
        store_values<width>(of.gx + at, gx);
      });
}

template <class T, int width, bool pooled = false>
__global__ void __launch_bounds__(kWholeThreads)
    packed_whole_gradient_kernel(const RunGradients<T> __grid_constant__ of) {
  MZ_SHARED(GradientSums<float>, room, kWholeThreads);
  const ChannelWalk walk(of.norm.runs);
  const RunCoefficients<float> run(of.norm, walk);
  constexpr int kMost = kWholeBatch<T, width>;
  differentiate_packs<kMost, width, pooled>(
      of, walk, run, pack_sums_over<kMost, width, pooled>(of, walk, run, room));
}

template <class T, int width, bool pooled = false>
__global__ void __launch_bounds__(kSpreadThreads, 4)
    packed_run_sums_kernel(const RunGradients<T> __grid_constant__ of,
                           GradientSums<float>* partial) {
  MZ_SHARED(GradientSums<float>, room, kSpreadThreads);
  const ChannelWalk walk(of.norm.runs);
  const GradientSums<float> sums = pack_sums_over<kRunBatch<T, width>, width, pooled>(
      of, walk, RunCoefficients<float>(of.norm, walk), room);
  if (walk.is_first()) partial[walk.channel * of.norm.runs.chunks + walk.chunk] = sums;
}

template <class T, int width, bool pooled = false>
__global__ void __launch_bounds__(kSpreadThreads)
    packed_run_gradient_kernel(const RunGradients<T> __grid_constant__ of,
                               const GradientSums<float>* partial, std::int64_t chunks) {
  MZ_SHARED(GradientSums<float>, room, kSpreadThreads);
  const ChannelWalk walk(of.norm.runs);
  const std::int64_t statistic = of.norm.sharing.statistic(walk.channel);
  const GradientSums<float> sums = joined_chunks(walk, room, partial, chunks, statistic, Plus{});
  differentiate_packs<kRunBatch<T, width>, width, pooled>(
      of, walk, RunCoefficients<float>(of.norm, walk), sums);
}

}  // namespace mezzo::gpu
