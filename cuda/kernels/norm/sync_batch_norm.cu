// The CUDA kernels of batch norm over a batch on several ranks. Each sum over channels takes two
// launches: the blocks' chunks, then the chunks of each channel.
#include "../../../tensor/ops/norm/sync_batch_norm.h"

#include "../../attach.h"
#include "../shape/copy.h"
#include "channel_norm.h"

namespace mezzo::gpu {

namespace {

/** Combines the moments of each channel's chunks and writes the message to the other ranks. */
template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    moments_message_kernel(const Channels __grid_constant__ lines, const MomentsState<C>* partial,
                           std::int64_t chunks, double* message) {
  MZ_SHARED(MomentsState<C>, room, kSpreadThreads);
  const ChannelWalk walk(lines);
  const MomentsState<C> all =
      joined_chunks(walk, room, partial, chunks, walk.channel, CombineMoments<C>{});
  if (!walk.is_first()) return;
  message[walk.channel] = static_cast<double>(all.mean);
  message[lines.channels + walk.channel] = static_cast<double>(all.squares);
  if (walk.channel == 0) message[2 * lines.channels] = static_cast<double>(lines.length());
}

/** Returns the same channels in one chunk each. */
Channels in_one_chunk(Channels c) {
  c.chunks = 1;
  c.chunk_length = c.length();
  return c;
}

void channel_moments(Inputs in, Outputs out, const NoAttrs&) {
  const Tensor x = channels_in(in[0].memory_format(), in[0]);
  if (x.numel() == 0) return fill_elements(out[0], 0);
  const Sizes s(x.shape());
  const Channels lines = spread_channels(s.samples, s.channels, s.inner);
  const runtime::Stream stream = current_stream(x.device());
  visit_floating_compute(x.dtype(), [&]<class C>(std::type_identity<C>) {
    const std::int64_t states = lines.channels * lines.chunks;
    const Tensor room =
        workspace(states * static_cast<std::int64_t>(sizeof(MomentsState<C>)), x.device());
    auto* const partial = static_cast<MomentsState<C>*>(room.raw_data());
    const Channels whole = in_one_chunk(lines);
    launch(&moments_kernel<C>, grid_of(lines), stream, lines, Array(x), partial);
    launch(&moments_message_kernel<C>, grid_of(whole), stream, whole, partial, lines.chunks,
           out[0].data<double>());
  });
}

void sync_batch_norm(Inputs in, Outputs out, const op::SyncBatchNorm::Attrs& attrs) {
  const op::BatchNorm::Attrs given{.training = false, .eps = attrs.eps};
  kernel_slot<op::BatchNorm>()(op_info<op::BatchNorm>, in, out, &given);
}

/** Adds up the sums of each channel's chunks. */
template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    join_sums_kernel(const Channels __grid_constant__ lines, const GradientSums<C>* partial,
                     std::int64_t chunks, const C* rstd, GradientSums<C>* sums, C* weight,
                     C* bias) {
  MZ_SHARED(GradientSums<C>, room, kSpreadThreads);
  const ChannelWalk walk(lines);
  const GradientSums<C> all = joined_chunks(walk, room, partial, chunks, walk.channel, Plus{});
  if (!walk.is_first()) return;
  sums[walk.channel] = all;
  weight[walk.channel] = lines.length() == 0 ? C(0) : all.gx * rstd[walk.channel];
  bias[walk.channel] = all.g;
}

void channel_gradient_sums(Inputs in, Outputs out, const NoAttrs&) {
  const MemoryFormat format = in[1].memory_format();
  const Tensor g = channels_in(format, in[0]), x = channels_in(format, in[1]),
               mean = row_major(in[2]), rstd = row_major(in[3]);
  const Sizes s(x.shape());
  const Channels lines = spread_channels(s.samples, s.channels, s.inner);
  const runtime::Stream stream = current_stream(x.device());
  visit_floating_compute(x.dtype(), [&]<class C>(std::type_identity<C>) {
    NormBackward<C> norm{};
    norm.runs = lines;
    norm.sharing = {1, s.channels};
    norm.g = Array(g);
    norm.x = Array(x);
    norm.mean = mean.data<C>();
    norm.rstd = rstd.data<C>();
    const Tensor room = sums_room<C>(lines.channels * lines.chunks, x.device());
    auto* const partial = static_cast<GradientSums<C>*>(room.raw_data());
    auto* const sums = static_cast<GradientSums<C>*>(out[0].raw_data());
    const Channels whole = in_one_chunk(lines);
    launch(&gradient_sums_kernel<C, NoGate>, grid_of(lines), stream, norm, NoGate{}, partial);
    launch(&join_sums_kernel<C>, grid_of(whole), stream, whole, partial, lines.chunks, norm.rstd,
           sums, static_cast<C*>(out[1].raw_data()), static_cast<C*>(out[2].raw_data()));
  });
}

void sync_batch_norm_backward(Inputs in, Outputs out,
                              const op::SyncBatchNormBackward::Attrs& attrs) {
  const NormOperands held(in, out[0]);
  const Tensor sums = row_major(in[5]);
  const Sizes s(held.x.shape());
  visit_floating_compute(held.x.dtype(), [&]<class C>(std::type_identity<C>) {
    NormBackward<C> norm = held.operands_for<C>(out[0]);
    norm.runs = spread_channels(s.samples, s.channels, s.inner);
    norm.sharing = {1, s.channels};
    norm.count = static_cast<C>(attrs.count);
    norm.through_statistics = true;
    launch(&norm_backward_kernel<C, NoGate>, grid_of(norm.runs), current_stream(held.x.device()),
           norm, NoGate{}, static_cast<const GradientSums<C>*>(sums.raw_data()), std::int64_t{1});
  });
}

}  // namespace

void attach_sync_batch_norm() {
  attach<op::ChannelMoments, channel_moments>();
  attach<op::SyncBatchNorm, sync_batch_norm>();
  attach<op::ChannelGradientSums, channel_gradient_sums>();
  attach<op::SyncBatchNormBackward, sync_batch_norm_backward>();
}

}  // namespace mezzo::gpu
