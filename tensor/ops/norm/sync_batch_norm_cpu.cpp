// Kernels of batch norm over a batch on several ranks.
#include "sync_batch_norm.h"

#include <algorithm>

#include "batch_norm.h"
#include "batch_norm_gradient_cpu.h"
#include "line_statistics_cpu.h"

namespace mezzo {

namespace {

using namespace cpu_kernels;

template <class C> void write_moments(const Tensor& x, double* message) {
  const ChannelShape s(x.shape());
  const std::int64_t count = s.samples * s.inner;
  double *mean = message, *squares = message + s.channels;
  message[2 * s.channels] = static_cast<double>(count);
  if (count == 0) return static_cast<void>(std::fill_n(message, 2 * s.channels, 0.0));
  channel_moments<C>(x, [&](std::int64_t channel, const auto& moments) {
    mean[channel] = static_cast<double>(moments.mean);
    squares[channel] = static_cast<double>(moments.squares);
  });
}

template <class C> void write_sums(Inputs in, Outputs out) {
  const MemoryFormat format = in[1].memory_format();
  const Tensor g = channels_in(format, in[0]), x = channels_in(format, in[1]),
               mean = row_major(in[2]), rstd = row_major(in[3]);
  const ChannelShape s(x.shape());
  const auto sums = channel_sums(g, x, s, mean.data<C>(), NoGate{});
  for (std::int64_t c = 0; c < s.channels; ++c) {
    out[0].data<C>()[2 * c] = sums[static_cast<std::size_t>(c)].g;
    out[0].data<C>()[2 * c + 1] = sums[static_cast<std::size_t>(c)].gx;
  }
  write_affine_gradients(s, sums.data(), rstd.data<C>(), static_cast<C*>(out[1].raw_data()),
                         static_cast<C*>(out[2].raw_data()));
}

template <class C> void backward(Inputs in, Outputs out, double count) {
  const Tensor sums = row_major(in[5]);
  write_input_gradient(BackwardOperands<C>(in, out[0]),
                       reinterpret_cast<const GradientSums<C>*>(sums.data<C>()),
                       std::optional(static_cast<C>(count)), out[0], NoGate{});
}

}  // namespace

namespace op {

void ChannelMoments::cpu(Inputs in, Outputs out, const NoAttrs&) {
  const Tensor x = channels_in(in[0].memory_format(), in[0]);
  visit_floating_compute(x.dtype(), [&]<class C>(std::type_identity<C>) {
    write_moments<C>(x, out[0].data<double>());
  });
}

void SyncBatchNorm::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  BatchNorm::cpu(in, out, {.training = false, .eps = attrs.eps});
}

void ChannelGradientSums::cpu(Inputs in, Outputs out, const NoAttrs&) {
  visit_floating_compute(in[1].dtype(),
                         [&]<class C>(std::type_identity<C>) { write_sums<C>(in, out); });
}

void SyncBatchNormBackward::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  visit_floating_compute(in[1].dtype(), [&]<class C>(std::type_identity<C>) {
    mezzo::backward<C>(in, out, attrs.count);
  });
}

}  // namespace op

}  // namespace mezzo
