// The CUDA kernels of batch norm over a batch on several ranks. Each sum over channels takes two
// launches: the blocks' chunks, by the kernels of batch norm, then the chunks of each channel.
#include "../../../tensor/ops/norm/sync_batch_norm.h"

#include "../../attach.h"
#include "../channel_packs.h"
#include "../shape/copy.h"

namespace mezzo::gpu {

namespace {

/** The message to the other ranks: means, sums of squared deviations, and the number of values. */
struct MomentsMessage {
  std::int64_t channels, count;
  double* to;

  template <class State>
  __device__ void write(std::int64_t channel, const State& of_channel) const {
    to[channel] = static_cast<double>(of_channel.mean);
    to[channels + channel] = static_cast<double>(of_channel.squares);
    if (channel == 0) to[2 * channels] = static_cast<double>(count);
  }
};

/** Combines the moments of each channel's chunks and writes the message. */
template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    moments_message_kernel(const Channels __grid_constant__ lines, const MomentsState<C>* partial,
                           std::int64_t chunks, const MomentsMessage message) {
  MZ_SHARED(MomentsState<C>, room, kSpreadThreads);
  const ChannelWalk walk(lines);
  const MomentsState<C> all =
      joined_chunks(walk, room, partial, chunks, walk.channel, CombineMoments<C>{});
  if (walk.is_first()) message.write(walk.channel, all);
}

/** The same for chunks of rows. */
__global__ void __launch_bounds__(kSpreadThreads)
    rows_message_kernel(const RowChunks __grid_constant__ rows, const MomentsState<float>* partial,
                        const MomentsMessage message) {
  MZ_SHARED(MomentsState<float>, room, kSpreadThreads);
  const Role at = role_in(join_spread());
  const std::int64_t channel =
      static_cast<std::int64_t>(blockIdx.x) * join_spread().slots + at.slot;
  const MomentsState<float> all =
      joined_rows(rows, partial, room, channel, at, CombineMoments<float>{});
  if (channel < rows.channels && at.part == 0) message.write(channel, all);
}

/** Returns the same channels in one chunk each. */
Channels in_one_chunk(Channels c) {
  c.chunks = 1;
  c.chunk_length = c.length();
  return c;
}

/** Calls start(partial) to compute the moments of all chunks, and launches the message. */
template <class C, class Start>
void put_moments(const Channels& lines, const MomentsMessage& message, Device device,
                 const Start& start) {
  const std::int64_t states = lines.channels * lines.chunks;
  const Tensor room =
      workspace(states * static_cast<std::int64_t>(sizeof(MomentsState<C>)), device);
  auto* const partial = static_cast<MomentsState<C>*>(room.raw_data());
  start(partial);
  const Channels whole = in_one_chunk(lines);
  launch(&moments_message_kernel<C>, grid_of(whole), current_stream(device), whole, partial,
         lines.chunks, message);
}

/** Computes the moments of rows of channels. */
void put_moments_of_rows(const Tensor& x, const Sizes& s, const MomentsMessage& message) {
  const RowChunks rows(s.samples, s.channels, x.dtype(), kMomentsResident);
  const Tensor room = workspace(
      rows.partials() * static_cast<std::int64_t>(sizeof(MomentsState<float>)), x.device());
  auto* const partial = static_cast<MomentsState<float>*>(room.raw_data());
  const runtime::Stream stream = current_stream(x.device());
  visit_packed(x.dtype(), [&]<class T>(std::type_identity<T>) {
    launch(&packed_moments_kernel<T>, rows.grid(), stream, rows,
           static_cast<const T*>(x.raw_data()), partial);
  });
  launch(&rows_message_kernel, join_grid(rows.channels), stream, rows, partial, message);
}

void channel_moments(Inputs in, Outputs out, const NoAttrs&) {
  const Tensor x = aligned(channels_in(in[0].memory_format(), in[0]));
  if (x.numel() == 0) return fill_elements(out[0], 0);
  const Sizes s(x.shape());
  const Device device = x.device();
  const runtime::Stream stream = current_stream(device);
  const MomentsMessage message{s.channels, s.samples * s.inner, out[0].data<double>()};
  visit_floating_compute(x.dtype(), [&]<class C>(std::type_identity<C>) {
    if constexpr (std::is_same_v<C, float>) {
      if (takes_rows(s, x.dtype(), true)) return put_moments_of_rows(x, s, message);
      if (takes_runs(s, x.dtype()))
        return visit_runs(
            s, x.dtype(),
            [&]<class T, int width>(std::type_identity<T>, std::integral_constant<int, width>) {
              const Channels lines = spread_channels(s.samples, s.channels, s.inner, width);
              put_moments<C>(lines, message, device, [&](MomentsState<C>* partial) {
                launch(&packed_run_moments_kernel<T, width>, grid_of(lines), stream, lines,
                       static_cast<const T*>(x.raw_data()), partial);
              });
            });
    }
    const Channels lines = spread_channels(s.samples, s.channels, s.inner);
    put_moments<C>(lines, message, device, [&](MomentsState<C>* partial) {
      launch(&moments_kernel<C>, grid_of(lines), stream, lines, Array(x), partial);
    });
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

/** Calls start(partial) to compute the sums of all chunks of norm.runs, and launches their sums. */
template <class C, class Start>
void put_sums(const NormBackward<C>& norm, GradientSums<C>* sums, Device device,
              const Start& start) {
  const Channels &lines = norm.runs, whole = in_one_chunk(lines);
  const Tensor room = sums_room<C>(lines.channels * lines.chunks, device);
  auto* const partial = static_cast<GradientSums<C>*>(room.raw_data());
  start(partial);
  launch(&join_sums_kernel<C>, grid_of(whole), current_stream(device), whole, partial, lines.chunks,
         norm.rstd, sums, norm.gw, norm.gb);
}

static_assert(sizeof(RowSums) == sizeof(GradientSums<float>));

/** Computes the sums of rows of channels. */
void put_sums_of_rows(const NormBackward<float>& norm, GradientSums<float>* sums, const Sizes& s,
                      Device device) {
  visit_packed(norm.x.dtype, [&]<class T>(std::type_identity<T>) {
    const RowGradients<T> of = row_gradients<T>(norm, s);
    const Tensor room =
        workspace(of.rows.partials() * static_cast<std::int64_t>(sizeof(RowSums)), device);
    auto* const partial = static_cast<RowSums*>(room.raw_data());
    const runtime::Stream stream = current_stream(device);
    launch(&packed_gradient_sums_kernel<T>, of.rows.grid(), stream, of, partial);
    launch(&join_gradient_sums_kernel<RowSums>, join_grid(s.channels), stream, of.rows, norm,
           partial, reinterpret_cast<RowSums*>(sums));
  });
}

void channel_gradient_sums(Inputs in, Outputs out, const NoAttrs&) {
  const MemoryFormat format = in[1].memory_format();
  const Tensor g = aligned(channels_in(format, in[0])), x = aligned(channels_in(format, in[1])),
               mean = row_major(in[2]), rstd = row_major(in[3]);
  const Sizes s(x.shape());
  const Device device = x.device();
  const runtime::Stream stream = current_stream(device);
  visit_floating_compute(x.dtype(), [&]<class C>(std::type_identity<C>) {
    NormBackward<C> norm{};
    norm.sharing = {1, s.channels};
    norm.g = Array(g);
    norm.x = Array(x);
    norm.mean = mean.data<C>();
    norm.rstd = rstd.data<C>();
    norm.gw = static_cast<C*>(out[1].raw_data());
    norm.gb = static_cast<C*>(out[2].raw_data());
    auto* const sums = static_cast<GradientSums<C>*>(out[0].raw_data());
    if constexpr (std::is_same_v<C, float>) {
      if (takes_rows(s, x.dtype(), true)) return put_sums_of_rows(norm, sums, s, device);
      if (takes_runs(s, x.dtype()))
        return visit_runs(
            s, x.dtype(),
            [&]<class T, int width>(std::type_identity<T>, std::integral_constant<int, width>) {
              norm.runs = spread_channels(s.samples, s.channels, s.inner, width);
              put_sums<C>(norm, sums, device, [&](GradientSums<C>* partial) {
                launch(&packed_run_sums_kernel<T, width>, grid_of(norm.runs), stream,
                       run_gradients<T>(norm), partial);
              });
            });
    }
    norm.runs = spread_channels(s.samples, s.channels, s.inner);
    put_sums<C>(norm, sums, device, [&](GradientSums<C>* partial) {
      launch(&gradient_sums_kernel<C, NoGate>, grid_of(norm.runs), stream, norm, NoGate{}, partial);
    });
  });
}

void sync_batch_norm_backward(Inputs in, Outputs out,
                              const op::SyncBatchNormBackward::Attrs& attrs) {
  NormOperands held(in, out[0]);
  held.g = aligned(held.g);
  held.x = aligned(held.x);
  const Tensor of_all_ranks = row_major(in[5]);
  const Sizes s(held.x.shape());
  const DType dtype = held.x.dtype();
  const runtime::Stream stream = current_stream(held.x.device());
  visit_floating_compute(dtype, [&]<class C>(std::type_identity<C>) {
    const auto* const sums = static_cast<const GradientSums<C>*>(of_all_ranks.raw_data());
    NormBackward<C> norm = held.operands_for<C>(out[0]);
    norm.sharing = {1, s.channels};
    norm.count = static_cast<C>(attrs.count);
    norm.through_statistics = true;
    if constexpr (std::is_same_v<C, float>) {
      if (takes_rows(s, dtype, true))
        return visit_packed(dtype, [&]<class T>(std::type_identity<T>) {
          const RowGradients<T> of = row_gradients<T>(norm, s);
          launch(&packed_norm_gradient_kernel<T>, of.rows.grid(), stream, of,
                 reinterpret_cast<const RowSums*>(sums));
        });
      if (takes_runs(s, dtype))
        return visit_runs(
            s, dtype,
            [&]<class T, int width>(std::type_identity<T>, std::integral_constant<int, width>) {
              norm.runs = spread_channels(s.samples, s.channels, s.inner, width);
              launch(&packed_run_gradient_kernel<T, width>, grid_of(norm.runs), stream,
                     run_gradients<T>(norm), sums, std::int64_t{1});
            });
    }
    norm.runs = spread_channels(s.samples, s.channels, s.inner);
    launch(&norm_backward_kernel<C, NoGate>, grid_of(norm.runs), stream, norm, NoGate{}, sums,
           std::int64_t{1});
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
