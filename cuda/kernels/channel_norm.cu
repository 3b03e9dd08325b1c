// The CUDA kernels of batch_norm, group_norm and instance_norm and of their gradients. The channels of one sample's group lie side by side, so that a
// group is to its statistics what a channel is to those of batch_norm.
#include <limits>

#include "../../tensor/cpu/gradient_sums.h"
#include "../../tensor/cpu/moments.h"
#include "../../tensor/ops/batch_norm.h"
#include "../../tensor/ops/group_norm.h"
#include "../attach.h"
#include "channels.h"
#include "map.h"
#include "row.h"

namespace mezzo::gpu {

namespace {

using cpu_kernels::GradientSums;
using cpu_kernels::Moments;
using cpu_kernels::Plus;

constexpr int kBatch = 8;

/** Which statistics and which weight the elements of a run take: those of runs [0, per_group), ... share statistics, weights repeat. */
struct Sharing {
  std::int64_t per_group = 1, weights = 1;
  __device__ std::int64_t statistic(std::int64_t run) const { return per_group == 1 ? run : run / per_group; }
  __device__ std::int64_t weight(std::int64_t run) const { return run % weights; }
};

/** The states of a line's chunks combined, for all its threads. */
template <class State, class Combine>
__device__ State joined_chunks(const ChannelWalk& walk, State* room, const State* partial,
                               std::int64_t chunks, std::int64_t line, const Combine& combine) {
  State state{};
  if (walk.has_channel())
    for (std::int64_t i = walk.at.part; i < chunks; i += walk.all.spread.parts)
      state = combine(state, partial[line * chunks + i]);
  return joined(walk.all.spread, walk.at, room, state, combine);
}

// ---- forward ------------------------------------------------------------------------------------------------------------

/** Exact for few values: their mean first, then the squares. */
template <class C> __device__ typename Moments<C>::State moments_of(const C* x, int n) {
  C sum = 0;
#pragma unroll
  for (int j = 0; j < kBatch; ++j) sum += j < n ? x[j] : C(0);
  const C mean = n == kBatch ? sum * C(1.0 / kBatch) : sum / static_cast<C>(n);
  C squares = 0;
#pragma unroll
  for (int j = 0; j < kBatch; ++j) squares += j < n ? (x[j] - mean) * (x[j] - mean) : C(0);
  return {static_cast<C>(n), mean, squares};
}

template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    moments_kernel(const __grid_constant__ Channels lines, const Array x,
                   typename Moments<C>::State* partial) {
  using State = typename Moments<C>::State;
  MZ_SHARED(State, room, kSpreadThreads);
  const ChannelWalk walk(lines);
  const auto combine = [](State a, State b) { return Moments<C>{}.combine(a, b); };
  State state{C(0), C(0), C(0)};
  walk.for_each_batch<kBatch>([&](const std::int64_t* places, int n) {
    C values[kBatch];
#pragma unroll
    for (int j = 0; j < kBatch; ++j) values[j] = j < n ? x.load<C>(places[j]) : C(0);
    state = combine(state, moments_of(values, n));
  });
  state = joined(lines.spread, walk.at, room, state, combine);
  if (walk.is_first()) partial[walk.channel * lines.chunks + walk.chunk] = state;
}

template <class C> struct Normalisation {
  Channels runs;
  Sharing sharing;
  Array x, weight, bias, y = {};
  C *mean = nullptr, *rstd = nullptr, *var = nullptr;  // results
  const typename Moments<C>::State* partial =
      nullptr;  // of each statistic's chunks; none where they are given
  std::int64_t chunks = 0;
  Array given_mean = {}, given_var = {};
  double eps = 0;
  Array running_mean = {}, running_var = {};  // moved towards the statistics
  op::UpdateRunning::Attrs move_mean = {}, move_var = {};
};

template <class C>
__device__ void track(const Array& running, std::int64_t at, const op::UpdateRunning::Attrs& move, C batch) {
  if (running.data) running.store<C>(at, op::updated_running<C>(move, running.load<C>(at), batch));
}

/** y = (x - mean) * (rstd * weight) + bias. */
template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    normalise_kernel(const __grid_constant__ Normalisation<C> norm) {
  using State = typename Moments<C>::State;
  MZ_SHARED(State, room, kSpreadThreads);
  const ChannelWalk walk(norm.runs);
  const std::int64_t statistic = norm.sharing.statistic(walk.channel);
  C mean = 0, var = 0;
  if (norm.partial) {
    const auto combine = [](State a, State b) { return Moments<C>{}.combine(a, b); };
    const State all = joined_chunks(walk, room, norm.partial, norm.chunks, statistic, combine);
    mean = all.count > C(0) ? all.mean : std::numeric_limits<C>::quiet_NaN();
    var = all.squares / all.count;
  } else if (walk.has_channel()) {
    mean = norm.given_mean.template load<C>(statistic);
    var = norm.given_var.template load<C>(statistic);
  }
  const C rstd = C(1) / std::sqrt(var + static_cast<C>(norm.eps));
  if (walk.is_first() && walk.chunk == 0 && walk.channel % norm.sharing.per_group == 0) {
    norm.mean[statistic] = mean;
    norm.rstd[statistic] = rstd;
    norm.var[statistic] = var;
    track(norm.running_mean, statistic, norm.move_mean, mean);
    track(norm.running_var, statistic, norm.move_var, var);
  }
  if (!walk.has_channel()) return;
  const std::int64_t own = norm.sharing.weight(walk.channel);
  const C scale = norm.weight.load_or(own, C(1)) * rstd, shift = norm.bias.load_or(own, C(0));
  walk.for_each_batch<kBatch>([&](const std::int64_t* places, int n) {
    C values[kBatch];
#pragma unroll
    for (int j = 0; j < kBatch; ++j) values[j] = j < n ? norm.x.template load<C>(places[j]) : C(0);
#pragma unroll
    for (int j = 0; j < kBatch; ++j)
      if (j < n) norm.y.template store<C>(places[j], (values[j] - mean) * scale + shift);
  });
}

/** [N, C, ...] as runs: the elements of one channel, in one sample or in all. */
struct Sizes {
  std::int64_t samples, channels, inner = 1;
  explicit Sizes(const Shape& x) : samples(x[0]), channels(x[1]) {
    for (int i = 2; i < x.rank(); ++i) inner *= x[i];
  }
};

template <class C>
void normalise(Normalisation<C> norm, const Channels* statistics, Outputs out, Device device) {
  const runtime::Stream stream = current_stream(device);
  Tensor partial;
  if (statistics) {
    using State = typename Moments<C>::State;
    const std::int64_t states = statistics->channels * statistics->chunks;
    partial = workspace(states * static_cast<std::int64_t>(sizeof(State)), device);
    State* const chunks = static_cast<State*>(partial.raw_data());
    launch(&moments_kernel<C>, grid_of(*statistics), stream, *statistics, norm.x, chunks);
    norm.partial = chunks;
    norm.chunks = statistics->chunks;
  }
  norm.y = Array(out[0]);
  norm.mean = out[1].data<C>();
  norm.rstd = out[2].data<C>();
  norm.var = out[3].data<C>();
  launch(&normalise_kernel<C>, grid_of(norm.runs), stream, norm);
}

void batch_norm(Inputs in, Outputs out, const op::BatchNorm::Attrs& attrs) {
  const Tensor x = row_major(in[0]), weight = row_major(in[1]), bias = row_major(in[2]);
  const Tensor mean = row_major(in[3]), var = row_major(in[4]);
  const Sizes s(x.shape());
  const Channels runs = spread_channels(s.samples, s.channels, s.inner);
  visit_floating_compute(x.dtype(), [&]<class C>(std::type_identity<C>) {
    Normalisation<C> norm{.runs = runs,
                          .sharing = {1, s.channels},
                          .x = Array(x),
                          .weight = Array(weight),
                          .bias = Array(bias),
                          .given_mean = Array(mean),
                          .given_var = Array(var),
                          .eps = attrs.eps};
    if (attrs.training && attrs.tracks) {
      norm.running_mean = Array(in[3]);
      norm.running_var = Array(in[4]);
      norm.move_mean = {attrs.momentum, 1};
      norm.move_var = {attrs.momentum, op::unbiased_scale(runs.length())};
    }
    normalise(norm, attrs.training ? &runs : nullptr, out, x.device());
  });
}

void group_norm(Inputs in, Outputs out, const op::GroupNormAttrs& attrs) {
  const Tensor x = row_major(in[0]), weight = row_major(in[1]), bias = row_major(in[2]);
  const Sizes s(x.shape());
  const std::int64_t groups = out[1].shape()[1];
  if (groups == 0) return;
  const std::int64_t per_group = s.channels / groups;
  const Channels statistics = spread_channels(1, s.samples * groups, per_group * s.inner);
  visit_floating_compute(x.dtype(), [&]<class C>(std::type_identity<C>) {
    const Normalisation<C> norm{.runs = spread_channels(1, s.samples * s.channels, s.inner),
                                .sharing = {per_group, s.channels},
                                .x = Array(x),
                                .weight = Array(weight),
                                .bias = Array(bias),
                                .eps = attrs.eps};
    normalise(norm, &statistics, out, x.device());
  });
}

// ---- gradients ------------------------------------------------------------------------------------------------------------

template <class C> struct NormBackward {
  Channels runs;
  Sharing sharing;
  Array g, x, weight, gx;
  const C *mean, *rstd;
  C *gw, *gb;
  C count;                  // of the elements behind a statistic
  bool through_statistics;  // they depend on x
  bool sums_are_weighted;   // sums over the channels of a group take the weights in
};

/** The sums over each chunk of each run. */
template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    gradient_sums_kernel(const __grid_constant__ NormBackward<C> norm, GradientSums<C>* partial) {
  MZ_SHARED(GradientSums<C>, room, kSpreadThreads);
  const ChannelWalk walk(norm.runs);
  const C mean = walk.has_channel() ? norm.mean[norm.sharing.statistic(walk.channel)] : C(0);
  GradientSums<C> sums;
  walk.for_each_batch<kBatch>([&](const std::int64_t* places, int n) {
    C g[kBatch], x[kBatch];
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      g[j] = j < n ? norm.g.template load<C>(places[j]) : C(0);
      x[j] = j < n ? norm.x.template load<C>(places[j]) : mean;
    }
#pragma unroll
    for (int j = 0; j < kBatch; ++j) sums = sums + GradientSums<C>{g[j], g[j] * (x[j] - mean)};
  });
  sums = joined(norm.runs.spread, walk.at, room, sums, Plus{});
  if (walk.is_first()) partial[walk.channel * norm.runs.chunks + walk.chunk] = sums;
}

/** gx = scale * g - shift - (x - mean) * from_x, the latter two made of the sums behind the run's statistic. */
template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    norm_backward_kernel(const __grid_constant__ NormBackward<C> norm, const GradientSums<C>* partial,
                         std::int64_t chunks) {
  MZ_SHARED(GradientSums<C>, room, kSpreadThreads);
  const ChannelWalk walk(norm.runs);
  const std::int64_t statistic = norm.sharing.statistic(walk.channel);
  const GradientSums<C> sums = joined_chunks(walk, room, partial, chunks, statistic, Plus{});
  if (!walk.has_channel()) return;
  const C mean = norm.mean[statistic], rstd = norm.rstd[statistic];
  if (norm.gw && walk.at.part == 0 && walk.chunk == 0) {
    norm.gw[walk.channel] = norm.count == C(0) ? C(0) : sums.gx * rstd;
    norm.gb[walk.channel] = sums.g;
  }
  const C scale = norm.weight.load_or(norm.sharing.weight(walk.channel), C(1)) * rstd;
  const C of_sums = norm.sums_are_weighted ? rstd : scale;
  const C shift = norm.through_statistics ? of_sums * (sums.g / norm.count) : C(0);
  const C from_x = norm.through_statistics ? of_sums * rstd * rstd * (sums.gx / norm.count) : C(0);
  walk.for_each_batch<kBatch>([&](const std::int64_t* places, int n) {
    C g[kBatch], x[kBatch];
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      g[j] = j < n ? norm.g.template load<C>(places[j]) : C(0);
      x[j] = j < n && norm.through_statistics ? norm.x.template load<C>(places[j]) : mean;
    }
#pragma unroll
    for (int j = 0; j < kBatch; ++j)
      if (j < n) norm.gx.template store<C>(places[j], g[j] * scale - shift - (x[j] - mean) * from_x);
  });
}

/** One block per group: the weighted sums of its runs. Behind them one per channel: its gradients of weight and bias. */
template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    group_sums_kernel(const __grid_constant__ NormBackward<C> norm, const GradientSums<C>* partial,
                      GradientSums<C>* of_group) {
  MZ_SHARED(GradientSums<C>, room, kSpreadThreads);
  const std::int64_t chunks = norm.runs.chunks, per_group = norm.sharing.per_group,
                     channels = norm.sharing.weights, samples = norm.runs.channels / channels,
                     groups = norm.runs.channels / per_group;
  const std::int64_t block = blockIdx.x;
  const bool for_group = block < groups;
  const std::int64_t count = (for_group ? per_group : samples) * chunks;
  GradientSums<C> sums;
  for (std::int64_t i = threadIdx.x; i < count; i += kSpreadThreads) {
    const std::int64_t run =
        for_group ? block * per_group + i / chunks : i / chunks * channels + (block - groups);
    const GradientSums<C> part = partial[run * chunks + i % chunks];
    const C weight = for_group ? norm.weight.load_or(run % channels, C(1)) : C(1);
    const C weight_x = for_group ? weight : norm.rstd[run / per_group];
    sums = sums + GradientSums<C>{weight * part.g, weight_x * part.gx};
  }
  const int thread = static_cast<int>(threadIdx.x);
  sums = joined({.slots = 1, .parts = kSpreadThreads}, {0, thread}, room, sums, Plus{});
  if (thread != 0) return;
  if (for_group) {
    of_group[block] = sums;
  } else {
    norm.gw[block - groups] = norm.count == C(0) ? C(0) : sums.gx;
    norm.gb[block - groups] = sums.g;
  }
}

template <class C> Tensor sums_room(std::int64_t count, Device device) {
  return workspace(count * static_cast<std::int64_t>(sizeof(GradientSums<C>)), device);
}

/** The operands of both gradients; the tensors hold their memory. */
struct Held {
  Tensor g, x, weight, mean, rstd;
  explicit Held(Inputs in)
      : g(row_major(in[0])),
        x(row_major(in[1])),
        weight(row_major(in[2])),
        mean(row_major(in[3])),
        rstd(row_major(in[4])) {}
  template <class C> NormBackward<C> operands(Outputs out) const {
    NormBackward<C> norm{};
    norm.g = Array(g);
    norm.x = Array(x);
    norm.weight = Array(weight);
    norm.gx = Array(out[0]);
    norm.mean = mean.data<C>();
    norm.rstd = rstd.data<C>();
    norm.gw = out[1].data<C>();
    norm.gb = out[2].data<C>();
    return norm;
  }
};

void batch_norm_backward(Inputs in, Outputs out, const op::BatchNorm::Attrs& attrs) {
  const Held held(in);
  const Device device = held.x.device();
  const Sizes s(held.x.shape());
  visit_floating_compute(held.x.dtype(), [&]<class C>(std::type_identity<C>) {
    NormBackward<C> norm = held.operands<C>(out);
    norm.runs = spread_channels(s.samples, s.channels, s.inner);
    norm.sharing = {1, s.channels};
    norm.count = static_cast<C>(norm.runs.length());
    norm.through_statistics = attrs.training;
    const Tensor room = sums_room<C>(s.channels * norm.runs.chunks, device);
    auto* const partial = static_cast<GradientSums<C>*>(room.raw_data());
    const runtime::Stream stream = current_stream(device);
    launch(&gradient_sums_kernel<C>, grid_of(norm.runs), stream, norm, partial);
    launch(&norm_backward_kernel<C>, grid_of(norm.runs), stream, norm, partial, norm.runs.chunks);
  });
}

void group_norm_backward(Inputs in, Outputs out, const op::GroupNormAttrs&) {
  const Held held(in);
  const Device device = held.x.device();
  const Sizes s(held.x.shape());
  const std::int64_t groups = held.mean.shape()[1];
  if (groups == 0) return;
  visit_floating_compute(held.x.dtype(), [&]<class C>(std::type_identity<C>) {
    NormBackward<C> norm = held.operands<C>(out);
    norm.runs = spread_channels(1, s.samples * s.channels, s.inner);
    norm.sharing = {std::max<std::int64_t>(1, s.channels / groups), s.channels};
    norm.count = static_cast<C>(norm.sharing.per_group * s.inner);
    norm.through_statistics = norm.sums_are_weighted = true;
    const std::int64_t states = norm.runs.channels * norm.runs.chunks, statistics = s.samples * groups;
    const Tensor room = sums_room<C>(states + statistics, device);
    auto *const partial = static_cast<GradientSums<C>*>(room.raw_data()), *const of_group = partial + states;
    const runtime::Stream stream = current_stream(device);
    launch(&gradient_sums_kernel<C>, grid_of(norm.runs), stream, norm, partial);
    launch(&group_sums_kernel<C>, {.blocks = statistics + s.channels, .threads = kSpreadThreads}, stream,
           norm, partial, of_group);
    norm.gw = nullptr;
    launch(&norm_backward_kernel<C>, grid_of(norm.runs), stream, norm, of_group, std::int64_t{1});
  });
}

// ---- running statistics -----------------------------------------------------------------------------------------------------

template <class C>
__global__ void __launch_bounds__(kMapThreads)
    update_kernel(const __grid_constant__ Map map, const op::UpdateRunning::Attrs attrs) {
  for_each_run(map, [&](std::int64_t at, int n) {
    C running[kRun], batch[kRun];
    load_run<C>(map, map.in[0], at, n, running);
    load_run<C>(map, map.in[1], at, n, batch);
#pragma unroll
    for (int k = 0; k < kRun; ++k)
      if (k < n) running[k] = op::updated_running<C>(attrs, running[k], batch[k]);
    store_run<C>(map, map.out[0], at, n, running);
  });
}

template <class C> void launch_update(const Map& map, const void* attrs, runtime::Stream stream) {
  launch(&update_kernel<C>, map_grid(map), stream, map, *static_cast<const op::UpdateRunning::Attrs*>(attrs));
}

void update_running(Inputs in, Outputs out, const op::UpdateRunning::Attrs& attrs) {
  constexpr MapFns fns{&launch_update<float>, &launch_update<double>};
  map_elements(fns, compute_dtype(in[1].dtype()), in, out, &attrs);
}

}  // namespace

void attach_channel_norm() {
  attach<op::BatchNorm, batch_norm>();
  attach<op::BatchNormBackward, batch_norm_backward>();
  attach<op::GroupNorm, group_norm>();
  attach<op::GroupNormBackward, group_norm_backward>();
  attach<op::InstanceNorm, group_norm>();
  attach<op::UpdateRunning, update_running>();
}

}  // namespace mezzo::gpu
