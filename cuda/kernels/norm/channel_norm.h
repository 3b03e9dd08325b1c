// Device code of batch_norm, group_norm, instance_norm and their gradients: normalisation per
// channel or group of channels. The channels of one sample's group are contiguous, so that a
// group's statistics are computed like those of a channel in batch_norm.
#pragma once

#include <cmath>
#include <limits>

#include "../../../tensor/core/row_major.h"
#include "../../../tensor/cpu/moments.h"
#include "../../../tensor/math/exp.h"
#include "../../../tensor/math/safe_sum.h"
#include "../../../tensor/ops/norm/batch_norm.h"
#include "../../../tensor/ops/norm/gradient_sums_cpu.h"
#include "../channels.h"

namespace mezzo::gpu {

using cpu_kernels::GradientSums;
using cpu_kernels::Moments;
using cpu_kernels::Plus;

inline constexpr int kBatch = 8;

/** Sizes of [N, C, ...]. A run holds the elements of one channel, in one sample or in all. For
 *  channels-last images see channels_as_in. */
struct Sizes {
  std::int64_t samples, channels, inner = 1;
  explicit Sizes(const Shape& x) : samples(x[0]), channels(x[1]) {
    for (int i = 2; i < x.rank(); ++i) inner *= x[i];
  }
};

/** Maps a run to its statistics and its weight: `per_group` consecutive runs share statistics,
 *  weights repeat. */
struct Sharing {
  std::int64_t per_group = 1, weights = 1;
  __device__ std::int64_t statistic(std::int64_t run) const {
    return per_group == 1 ? run : run / per_group;
  }
  __device__ std::int64_t weight(std::int64_t run) const { return run % weights; }
};

/** Combines the states of a line's chunks and returns the result to all threads of the line. */
template <class State, class Combine>
__device__ State joined_chunks(const ChannelWalk& walk, State* room, const State* partial,
                               std::int64_t chunks, std::int64_t line, const Combine& combine) {
  State state{};
  if (walk.has_channel())
    for (std::int64_t i = walk.at.part; i < chunks; i += walk.all.spread.parts)
      state = combine(state, partial[line * chunks + i]);
  return joined(walk.all.spread, walk.at, room, state, combine);
}

// ---- forward ------------------------------------------------------------------------------------

template <class C> using MomentsState = typename Moments<C>::State;

template <class C> struct CombineMoments {
  __device__ MomentsState<C> operator()(MomentsState<C> a, MomentsState<C> b) const {
    return Moments<C>{}.combine(a, b);
  }
};

/** Returns the moments of few values in two passes: the mean first, then the squares. */
template <class C> __device__ MomentsState<C> moments_of(const C* x, int n) {
  C sum = 0;
#pragma unroll
  for (int j = 0; j < kBatch; ++j) sum += j < n ? x[j] : C(0);
  const C mean = n == kBatch ? sum * C(1.0 / kBatch) : sum / static_cast<C>(n);
  C squares = 0;
#pragma unroll
  for (int j = 0; j < kBatch; ++j) squares += j < n ? (x[j] - mean) * (x[j] - mean) : C(0);
  return {static_cast<C>(n), mean, squares};
}

/** Returns the moments of the block's part of each of its channels, to all their threads. */
template <class C>
__device__ MomentsState<C> moments_over(const ChannelWalk& walk, const Array& x,
                                        MomentsState<C>* room) {
  const CombineMoments<C> combine;
  MomentsState<C> state{C(0), C(0), C(0)};
  walk.for_each_batch<kBatch>([&](const std::int64_t* places, int n) {
    C values[kBatch];
#pragma unroll
    for (int j = 0; j < kBatch; ++j) values[j] = j < n ? x.load<C>(places[j]) : C(0);
    state = combine(state, moments_of(values, n));
  });
  return joined(walk.all.spread, walk.at, room, state, combine);
}

template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    moments_kernel(const Channels __grid_constant__ lines, const Array x,
                   MomentsState<C>* partial) {
  MZ_SHARED(MomentsState<C>, room, kSpreadThreads);
  const ChannelWalk walk(lines);
  const MomentsState<C> state = moments_over<C>(walk, x, room);
  if (walk.is_first()) partial[walk.channel * lines.chunks + walk.chunk] = state;
}

template <class C> struct Statistics {
  C mean = 0, var = 0;
  C scale = 1, scaled_var = 0;  // the variance of x multiplied by the scale, unless that is 1
  Statistics() = default;
  __device__ explicit Statistics(const MomentsState<C>& all)
      : mean(all.count > C(0) ? all.mean : std::numeric_limits<C>::quiet_NaN()),
        var(all.squares / all.count) {}
  /** For the moments of x multiplied by `factor`. */
  __device__ Statistics(const MomentsState<C>& all, C factor)
      : mean(all.mean / factor),
        var(all.squares / all.count / factor / factor),
        scale(factor),
        scaled_var(all.squares / all.count) {}
  __device__ C rstd(double eps) const {
    const C added = static_cast<C>(eps);
    return scale == C(1) ? C(1) / std::sqrt(var + added)
                         : scale / std::sqrt(scaled_var + added * scale * scale);
  }
};

/** The sizes [samples, lines, inner] of a tensor in which a statistic is that of one line, in
 *  elements. */
struct StatisticLines {
  std::int64_t samples = 0, lines = 0, inner = 0;

  StatisticLines() = default;
  explicit StatisticLines(const Channels& c)
      : samples(c.samples), lines(c.channels), inner(c.inner * c.width) {}
};

/** Returns the moments of every `step`th element of a line from `begin` on, multiplied by `scale`.
 *  Not inlined: this is the slow way. */
template <class C>
__device__ __noinline__ MomentsState<C> scaled_moments(const Array& x, const StatisticLines& of,
                                                       std::int64_t line, std::int64_t begin,
                                                       std::int64_t step, C scale) {
  MomentsState<C> state{C(0), C(0), C(0)};
  for (std::int64_t i = begin; i < of.samples * of.inner; i += step) {
    const std::int64_t place = (i / of.inner * of.lines + line) * of.inner + i % of.inner;
    state = Moments<C>{}.combine(state, {C(1), x.template load<C>(place) * scale, C(0)});
  }
  return state;
}

/** Returns the statistics of a line from its moments, which all its threads have. If a sum
 *  overflowed, the threads read the line again. All threads of the block must call it. */
template <class C>
__device__ Statistics<C> safe_statistics(const Array& x, const StatisticLines& of,
                                         const Spread& spread, Role at, bool has_line,
                                         std::int64_t line, const MomentsState<C>& state,
                                         MomentsState<C>* room) {
  constexpr C kScale = static_cast<C>(std::is_same_v<C, float> ? 0x1p-80 : 0x1p-600);
  const bool repeats = has_line && !math::is_finite(state.squares);
  if (!__syncthreads_or(repeats)) return Statistics<C>(state);
  MomentsState<C> again = state;
  if (repeats) again = scaled_moments(x, of, line, at.part, spread.parts, kScale);
  again = joined(spread, at, room, again, CombineMoments<C>{});
  return repeats ? Statistics<C>(again, kScale) : Statistics<C>(state);
}

template <class C>
__device__ void track(const Array& running, std::int64_t at, const op::UpdateRunning::Attrs& move,
                      C batch) {
  if (running.data) running.store<C>(at, op::updated_running<C>(move, running.load<C>(at), batch));
}

template <class C> struct Normalisation {
  Channels runs;
  Sharing sharing;
  Array x, weight, bias, y = {};
  C *mean = nullptr, *rstd = nullptr, *var = nullptr;  // results
  const MomentsState<C>* partial = nullptr;            // of each statistic's chunks; null if given
  std::int64_t chunks = 0;
  StatisticLines lines = {};  // of each statistic
  Array given_mean = {}, given_var = {};
  double eps = 0;
  Array running_mean = {}, running_var = {};  // updated with the statistics
  op::UpdateRunning::Attrs move_mean = {}, move_var = {};
  std::int64_t* batches = nullptr;  // incremented

  void write_to(Outputs out) {
    y = Array(out[0]);
    mean = out[1].data<C>();
    rstd = out[2].data<C>();
    var = out[3].data<C>();
  }
  /** Returns the statistics of the calling thread's run from its moments. All threads of the block
   *  must call it. */
  __device__ Statistics<C> statistics(const ChannelWalk& walk, std::int64_t statistic,
                                      const MomentsState<C>& state, MomentsState<C>* room) const {
    return safe_statistics<C>(x, lines, walk.all.spread, walk.at, walk.has_channel(), statistic,
                              state, room);
  }
  /** Writes the statistics of one channel or group, and updates the running ones. */
  __device__ void write_statistics(std::int64_t statistic, const Statistics<C>& of) const {
    mean[statistic] = of.mean;
    rstd[statistic] = of.rstd(eps);
    var[statistic] = of.var;
    track(running_mean, statistic, move_mean, of.mean);
    track(running_var, statistic, move_var, of.var);
    if (batches && statistic == 0) ++*batches;
  }
  /** Writes them in the first chunk of the first of the runs that share them. */
  __device__ void keep(const ChannelWalk& walk, const Statistics<C>& of) const {
    if (walk.is_first() && walk.chunk == 0 && walk.channel % sharing.per_group == 0)
      write_statistics(sharing.statistic(walk.channel), of);
  }
};

/** The identity, where nothing follows the normalisation. */
struct AsIs {
  template <class C> __device__ C operator()(C normal, std::int64_t) const { return normal; }
};

/** Computes y = after((x - mean) * (rstd * weight) + bias) for the block's part of its runs. */
template <class C, class After>
__device__ void normalise_runs(const Normalisation<C>& norm, const After& after,
                               const ChannelWalk& walk, const Statistics<C>& of) {
  const C mean = of.mean, rstd = of.rstd(norm.eps);
  norm.keep(walk, of);
  if (!walk.has_channel()) return;
  const std::int64_t own = norm.sharing.weight(walk.channel);
  const C scale = norm.weight.load_or(own, C(1)) * rstd, shift = norm.bias.load_or(own, C(0));
  walk.for_each_batch<kBatch>([&](const std::int64_t* places, int n) {
    C values[kBatch];
#pragma unroll
    for (int j = 0; j < kBatch; ++j) values[j] = j < n ? norm.x.template load<C>(places[j]) : C(0);
#pragma unroll
    for (int j = 0; j < kBatch; ++j)
      if (j < n)
        norm.y.template store<C>(places[j],
                                 after(op::normalised(values[j], mean, scale, shift), places[j]));
  });
}

template <class C, class After>
__global__ void __launch_bounds__(kSpreadThreads)
    normalise_kernel(const Normalisation<C> __grid_constant__ norm,
                     const After __grid_constant__ after) {
  MZ_SHARED(MomentsState<C>, room, kSpreadThreads);
  const ChannelWalk walk(norm.runs);
  const std::int64_t statistic = norm.sharing.statistic(walk.channel);
  Statistics<C> of;
  if (norm.partial) {
    of = norm.statistics(
        walk, statistic,
        joined_chunks(walk, room, norm.partial, norm.chunks, statistic, CombineMoments<C>{}), room);
  } else if (walk.has_channel()) {
    of.mean = norm.given_mean.template load<C>(statistic);
    of.var = norm.given_var.template load<C>(statistic);
  }
  normalise_runs(norm, after, walk, of);
}

/** Normalises in two launches, or in one if the statistics are given. */
template <class C, class After>
void normalise(Normalisation<C> norm, const After& after, const Channels* statistics,
               Device device) {
  const runtime::Stream stream = current_stream(device);
  Tensor partial;
  if (statistics) {
    const std::int64_t states = statistics->channels * statistics->chunks;
    partial = workspace(states * static_cast<std::int64_t>(sizeof(MomentsState<C>)), device);
    auto* const chunks = static_cast<MomentsState<C>*>(partial.raw_data());
    launch(&moments_kernel<C>, grid_of(*statistics), stream, *statistics, norm.x, chunks);
    norm.partial = chunks;
    norm.chunks = statistics->chunks;
    norm.lines = StatisticLines(*statistics);
  }
  launch(&normalise_kernel<C, After>, grid_of(norm.runs), stream, norm, after);
}

// ---- gradients ----------------------------------------------------------------------------------

template <class C> struct NormBackward {
  Channels runs;
  Sharing sharing;
  Array g, x, weight, bias, gx;
  const C *mean, *rstd;
  C *gw, *gb;
  C count;                  // number of elements per statistic
  bool through_statistics;  // the statistics depend on x
  bool sums_are_weighted;   // sums over the channels of a group include the weights
};

/** Returns (x - mean) * unit, where centre is mean * unit. */
template <class C> __device__ C deviation(C x, C unit, C centre) {
  return math::detail::multiply_add(x, unit, -centre);
}

/** The identity, where nothing gates the incoming gradient. */
struct NoGate {
  static constexpr bool kReadsX = false;
  template <class C> __device__ C operator()(C g, C, std::int64_t) const { return g; }
  template <class C> __device__ void keep(C, std::int64_t) const {}
};

/** Coefficients shared by the elements of a run. */
template <class C> struct RunCoefficients {
  C mean = 0, rstd = 0, scale = 0, shift = 0;
  __device__ RunCoefficients(const NormBackward<C>& norm, const ChannelWalk& walk) {
    if (!walk.has_channel()) return;
    const std::int64_t statistic = norm.sharing.statistic(walk.channel),
                       own = norm.sharing.weight(walk.channel);
    mean = norm.mean[statistic];
    rstd = norm.rstd[statistic];
    scale = norm.weight.load_or(own, C(1)) * rstd;
    shift = norm.bias.load_or(own, C(0));
  }
};

/** Up to kBatch elements of x, and of g after the gate. */
template <class C> struct GatedBatch {
  C g[kBatch], x[kBatch];
  template <class Gate>
  __device__ GatedBatch(const NormBackward<C>& norm, const Gate& gate,
                        const RunCoefficients<C>& run, const std::int64_t* places, int n,
                        bool reads_x) {
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      g[j] = j < n ? norm.g.template load<C>(places[j]) : C(0);
      x[j] = j < n && (reads_x || Gate::kReadsX) ? norm.x.template load<C>(places[j]) : run.mean;
    }
#pragma unroll
    for (int j = 0; j < kBatch; ++j)
      if (j < n) g[j] = gate(g[j], op::normalised(x[j], run.mean, run.scale, run.shift), places[j]);
  }
};

/** Returns the sums over the block's part of each of its runs, to all their threads. */
template <class C, class Gate>
__device__ GradientSums<C> gradient_sums_over(const NormBackward<C>& norm, const Gate& gate,
                                              const ChannelWalk& walk,
                                              const RunCoefficients<C>& run,
                                              GradientSums<C>* room) {
  GradientSums<C> sums;
  walk.for_each_batch<kBatch>([&](const std::int64_t* places, int n) {
    const GatedBatch<C> batch(norm, gate, run, places, n, true);
#pragma unroll
    for (int j = 0; j < kBatch; ++j)
      sums = sums + GradientSums<C>{batch.g[j], batch.g[j] * (batch.x[j] - run.mean)};
  });
  return joined(norm.runs.spread, walk.at, room, sums, Plus{});
}

/** Computes the sums over each chunk of each run. */
template <class C, class Gate>
__global__ void __launch_bounds__(kSpreadThreads)
    gradient_sums_kernel(const NormBackward<C> __grid_constant__ norm,
                         const Gate __grid_constant__ gate, GradientSums<C>* partial) {
  MZ_SHARED(GradientSums<C>, room, kSpreadThreads);
  const ChannelWalk walk(norm.runs);
  const GradientSums<C> sums =
      gradient_sums_over(norm, gate, walk, RunCoefficients<C>(norm, walk), room);
  if (walk.is_first()) partial[walk.channel * norm.runs.chunks + walk.chunk] = sums;
}

/** Computes gx = scale * g - shift - (x - mean) * unit * from_x; the latter follow from the sums
 * over the elements of the run's statistic. */
template <class C, class Gate>
__device__ void differentiate_runs(const NormBackward<C>& norm, const Gate& gate,
                                   const ChannelWalk& walk, const RunCoefficients<C>& run,
                                   const GradientSums<C>& sums) {
  if (!walk.has_channel()) return;
  const C mean = run.mean, rstd = run.rstd, scale = run.scale;
  if (norm.gw && walk.at.part == 0 && walk.chunk == 0) {
    norm.gw[walk.channel] = norm.count == C(0) ? C(0) : sums.gx * rstd;
    norm.gb[walk.channel] = sums.g;
  }
  const bool through = norm.through_statistics;
  const C of_sums = norm.sums_are_weighted ? rstd : scale;
  const C shift = through ? of_sums * (sums.g / norm.count) : C(0);
  const C unit = through ? op::unit_of(rstd) : C(1), centre = mean * unit;
  const C from_x = through ? op::slope_of(of_sums, rstd, sums.gx / norm.count, unit) : C(0);
  walk.for_each_batch<kBatch>([&](const std::int64_t* places, int n) {
    const GatedBatch<C> batch(norm, gate, run, places, n, through);
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      if (j >= n) continue;
      const C g = batch.g[j], x = through ? batch.x[j] : mean;
      norm.gx.template store<C>(places[j], g * scale - shift - deviation(x, unit, centre) * from_x);
      gate.keep(g, places[j]);
    }
  });
}

template <class C, class Gate>
__global__ void __launch_bounds__(kSpreadThreads)
    norm_backward_kernel(const NormBackward<C> __grid_constant__ norm,
                         const Gate __grid_constant__ gate, const GradientSums<C>* partial,
                         std::int64_t chunks) {
  MZ_SHARED(GradientSums<C>, room, kSpreadThreads);
  const ChannelWalk walk(norm.runs);
  const std::int64_t statistic = norm.sharing.statistic(walk.channel);
  const GradientSums<C> sums = joined_chunks(walk, room, partial, chunks, statistic, Plus{});
  differentiate_runs(norm, gate, walk, RunCoefficients<C>(norm, walk), sums);
}

template <class C> Tensor sums_room(std::int64_t count, Device device) {
  return workspace(count * static_cast<std::int64_t>(sizeof(GradientSums<C>)), device);
}

/** The operands of the gradients; the tensors own their memory. */
struct NormOperands {
  Tensor g, x, weight, mean, rstd;
  NormOperands(Inputs in, const Tensor& gx)
      : g(channels_as_in(gx, in[0])),
        x(channels_as_in(gx, in[1])),
        weight(row_major(in[2])),
        mean(row_major(in[3])),
        rstd(row_major(in[4])) {}
  /** Returns them for a kernel that writes the gradient of x only. */
  template <class C> NormBackward<C> operands_for(Tensor& gx) const {
    NormBackward<C> norm{};
    norm.g = Array(g);
    norm.x = Array(x);
    norm.weight = Array(weight);
    norm.gx = Array(gx);
    norm.mean = mean.data<C>();
    norm.rstd = rstd.data<C>();
    return norm;
  }
  template <class C> NormBackward<C> operands(Outputs out) const {
    NormBackward<C> norm = operands_for<C>(out[0]);
    norm.gw = static_cast<C*>(out[1].raw_data());
    norm.gb = static_cast<C*>(out[2].raw_data());
    return norm;
  }
};

}  // namespace mezzo::gpu
