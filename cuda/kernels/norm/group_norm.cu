// The CUDA kernels of group_norm and instance_norm and of their gradient.
#include "../../../tensor/ops/norm/group_norm.h"

#include <limits>

#include "../../attach.h"
#include "../channel_packs.h"
#include "../shape/copy.h"

namespace mezzo::gpu {

namespace {

void group_norm(Inputs in, Outputs out, const op::GroupNormAttrs& attrs) {
  const Tensor x = aligned(row_major(in[0])), weight = row_major(in[1]), bias = row_major(in[2]);
  const Sizes s(x.shape());
  const std::int64_t groups = out[1].shape()[1];
  if (x.numel() == 0) {  // the number of channels may be arbitrary
    for (int i = 1; i <= 3; ++i) fill_elements(out[i], std::numeric_limits<double>::quiet_NaN());
    return;
  }
  const std::int64_t per_group = s.channels / groups;
  const auto runs = [&](std::int64_t width) {
    return spread_channels(1, s.samples * s.channels, s.inner, width);
  };
  const auto statistics = [&](std::int64_t width) {
    return spread_channels(1, s.samples * groups, per_group * s.inner, width);
  };
  visit_floating_compute(x.dtype(), [&]<class C>(std::type_identity<C>) {
    Normalisation<C> norm{.runs = runs(1),
                          .sharing = {per_group, s.channels},
                          .x = Array(x),
                          .weight = Array(weight),
                          .bias = Array(bias),
                          .eps = attrs.eps};
    norm.write_to(out);
    if constexpr (std::is_same_v<C, float>)
      if (takes_runs(s, x.dtype()))
        return visit_runs(
            s, x.dtype(),
            [&]<class T, int width>(std::type_identity<T>, std::integral_constant<int, width>) {
              norm.runs = runs(width);
              const Channels of_packs = statistics(width);
              normalise_in_packs<width>(norm, RowTail<T>{}, &of_packs, x.device());
            });
    const Channels of_elements = statistics(1);
    normalise(norm, AsIs{}, &of_elements, x.device());
  });
}

/** The first blocks compute the weighted sums of the runs of one group each, the others the
 *  gradients of weight and bias of one channel each. */
template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    group_sums_kernel(const NormBackward<C> __grid_constant__ norm, const GradientSums<C>* partial,
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

/** Computes all gradients in three launches, of which put_sums(partial) and put_gradient(sums of
 *  the groups) are the first and the last. */
template <class C, class PutSums, class PutGradient>
void differentiate(const NormBackward<C>& norm, std::int64_t groups, Device device,
                   const PutSums& put_sums, const PutGradient& put_gradient) {
  const std::int64_t states = norm.runs.channels * norm.runs.chunks;
  const Tensor room = sums_room<C>(states + groups, device);
  auto *const partial = static_cast<GradientSums<C>*>(room.raw_data()), *const of_group =
                                                                            partial + states;
  put_sums(partial);
  launch(&group_sums_kernel<C>,
         {.blocks = groups + norm.sharing.weights, .threads = kSpreadThreads},
         current_stream(device), norm, partial, of_group);
  put_gradient(of_group);
}

void group_norm_backward(Inputs in, Outputs out, const op::GroupNormAttrs&) {
  NormOperands held(in, out[0]);
  held.g = aligned(held.g);
  held.x = aligned(held.x);
  const Device device = held.x.device();
  const Sizes s(held.x.shape());
  const std::int64_t groups = held.mean.shape()[1];
  if (held.x.numel() == 0) {
    for (int i = 1; i <= 2; ++i) fill_elements(out[i], 0);
    return;
  }
  visit_floating_compute(held.x.dtype(), [&]<class C>(std::type_identity<C>) {
    NormBackward<C> norm = held.operands<C>(out);
    norm.sharing = {std::max<std::int64_t>(1, s.channels / groups), s.channels};
    norm.count = static_cast<C>(norm.sharing.per_group * s.inner);
    norm.through_statistics = norm.sums_are_weighted = true;
    const std::int64_t all_groups = s.samples * groups, one_chunk = 1;
    const runtime::Stream stream = current_stream(device);
    if constexpr (std::is_same_v<C, float>)
      if (takes_runs(s, held.x.dtype()))
        return visit_runs(
            s, held.x.dtype(),
            [&]<class T, int width>(std::type_identity<T>, std::integral_constant<int, width>) {
              norm.runs = spread_channels(1, s.samples * s.channels, s.inner, width);
              RunGradients<T> of = run_gradients<T>(norm);
              of.norm.gw = nullptr;  // written by group_sums_kernel
              differentiate(
                  norm, all_groups, device,
                  [&](GradientSums<C>* partial) {
                    launch(&packed_run_sums_kernel<T, width>, grid_of(norm.runs), stream, of,
                           partial);
                  },
                  [&](const GradientSums<C>* of_group) {
                    launch(&packed_run_gradient_kernel<T, width>, grid_of(norm.runs), stream, of,
                           of_group, one_chunk);
                  });
            });
    norm.runs = spread_channels(1, s.samples * s.channels, s.inner);
    const NoGate gate;
    differentiate(
        norm, all_groups, device,
        [&](GradientSums<C>* partial) {
          launch(&gradient_sums_kernel<C, NoGate>, grid_of(norm.runs), stream, norm, gate, partial);
        },
        [&](const GradientSums<C>* of_group) {
          norm.gw = nullptr;
          launch(&norm_backward_kernel<C, NoGate>, grid_of(norm.runs), stream, norm, gate, of_group,
                 one_chunk);
        });
  });
}

}  // namespace

void attach_group_norm() {
  attach<op::GroupNorm, group_norm>();
  attach<op::GroupNormBackward, group_norm_backward>();
  attach<op::InstanceNorm, group_norm>();
}

}  // namespace mezzo::gpu
