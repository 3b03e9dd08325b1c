// Kernels of batch_norm, its gradient, and the update of its running statistics.
#include "../ops/batch_norm.h"

#include <cmath>
#include <vector>

#include "block_map.h"
#include "channel_runs.h"
#include "moments.h"
#include "reduce_driver.h"

namespace mezzo {

namespace {

using namespace cpu_kernels;

/** Mean and biased variance of each channel over the batch. */
template <class C> void batch_statistics(const Tensor& x, C* mean, C* var) {
  using State = typename Moments<C>::State;
  const std::uint32_t all_but_channels = ((1u << x.dim()) - 1) & ~2u;
  reduce_tensor(
      x, all_but_channels, Moments<C>{},
      [&](std::int64_t at, const State* states, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) {
          mean[at + i] = states[i].count > 0 ? states[i].mean : std::numeric_limits<C>::quiet_NaN();
          var[at + i] = states[i].squares / states[i].count;
        }
      },
      0.3);
}

/** Moves a running statistic of any dtype towards the batch's. */
template <class C> void track(const Tensor& running, const C* batch, const op::UpdateRunning::Attrs& attrs) {
  if (!running.defined()) return;
  std::vector<C> values = channel_values<C>(running, running.numel(), 0);
  for (std::size_t c = 0; c < values.size(); ++c) values[c] = op::updated_running(attrs, values[c], batch[c]);
  BlockWriter<C>(running).copy(0, running.numel(), values.data());
}

template <class C> void forward(Inputs in, Outputs out, const op::BatchNorm::Attrs& attrs) {
  const Tensor x = row_major(in[0]);
  const ChannelShape s(x.shape());
  C *mean = out[1].data<C>(), *rstd = out[2].data<C>(), *var = out[3].data<C>();
  if (attrs.training) {
    batch_statistics(x, mean, var);
    if (attrs.tracks) {
      track(in[3], mean, {attrs.momentum, 1});
      track(in[4], var, {attrs.momentum, op::unbiased_scale(s.samples * s.inner)});
    }
  } else {
    const auto given_mean = channel_values<C>(in[3], s.channels, 0),
               given_var = channel_values<C>(in[4], s.channels, 1);
    std::copy(given_mean.begin(), given_mean.end(), mean);
    std::copy(given_var.begin(), given_var.end(), var);
  }
  std::vector<C> scale = channel_values<C>(in[1], s.channels, 1);
  const std::vector<C> shift = channel_values<C>(in[2], s.channels, 0);
  for (std::int64_t c = 0; c < s.channels; ++c) {
    rstd[c] = C(1) / std::sqrt(var[c] + static_cast<C>(attrs.eps));
    scale[static_cast<std::size_t>(c)] *= rstd[c];
  }
  const C *a = scale.data(), *b = shift.data();
  map_runs<C, 1>({x}, out[0], s, s.channels,
                 [=](C value, std::int64_t c) { return (value - mean[c]) * a[c] + b[c]; });
}

/** The sums over each channel that the gradients are made of. */
template <class C>
std::vector<GradientSums<C>> channel_sums(const Tensor& g, const Tensor& x, const ChannelShape& s,
                                          const C* mean) {
  std::vector<GradientSums<C>> sums(static_cast<std::size_t>(s.inner == 1 ? s.channels : s.runs()));
  if (s.runs() * s.inner == 0) {
    sums.assign(static_cast<std::size_t>(s.channels), {});
  } else if (s.inner == 1) {
    column_sums(g, x, s, mean, sums.data());
  } else {
    run_sums(g, x, s, mean, s.channels, sums.data());
    add_rows_pairwise(sums.data(), s.samples, s.channels);
  }
  return sums;
}

template <class C> void backward(Inputs in, Outputs out, const op::BatchNorm::Attrs& attrs) {
  const Tensor g = row_major(in[0]), x = row_major(in[1]), mean_values = row_major(in[3]),
               rstd_values = row_major(in[4]);
  const ChannelShape s(x.shape());
  const C *mean = mean_values.data<C>(), *rstd = rstd_values.data<C>();
  const std::vector<GradientSums<C>> sums = channel_sums(g, x, s, mean);
  // dx = scale * (g - mean(g) - (x - mean) * rstd^2 * mean(g * (x - mean))); in eval only the first term.
  std::vector<C> scale = channel_values<C>(in[2], s.channels, 1), from_x(scale.size()), shift(scale.size());
  const C count = attrs.training ? static_cast<C>(s.samples * s.inner) : std::numeric_limits<C>::infinity();
  for (std::size_t c = 0; c < scale.size(); ++c) {
    out[1].data<C>()[c] = x.numel() == 0 ? C(0) : sums[c].gx * rstd[c];
    out[2].data<C>()[c] = sums[c].g;
    scale[c] *= rstd[c];
    from_x[c] = rstd[c] * rstd[c] * (sums[c].gx / count);
    shift[c] = sums[c].g / count;
  }
  const C *a = scale.data(), *p = from_x.data(), *q = shift.data();
  const bool training = attrs.training;
  map_runs<C, 2>({g, x}, out[0], s, s.channels, [=](C gv, C xv, std::int64_t c) {
    return training ? a[c] * (gv - q[c] - (xv - mean[c]) * p[c]) : a[c] * gv;
  });
}

template <class C> void update_block(const C* const* in, C* const* out, std::int64_t n, const void* address) {
  const auto& attrs = *static_cast<const op::UpdateRunning::Attrs*>(address);
  for (std::int64_t i = 0; i < n; ++i) out[0][i] = op::updated_running(attrs, in[0][i], in[1][i]);
}

}  // namespace

namespace op {

void BatchNorm::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  visit_floating_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) { forward<C>(in, out, attrs); });
}

void BatchNormBackward::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  visit_floating_compute(in[1].dtype(),
                         [&]<class C>(std::type_identity<C>) { mezzo::backward<C>(in, out, attrs); });
}

void UpdateRunning::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  constexpr BlockFns update{&update_block<float>, &update_block<double>};
  map_blocks(update, in[1].dtype() == DType::f64 ? DType::f64 : DType::f32, in, out, &attrs);
}

}  // namespace op

}  // namespace mezzo
