// Kernels of group_norm, instance_norm and their gradient.
#include "group_norm.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "../../cpu/channel_runs.h"
#include "line_statistics_cpu.h"

namespace mezzo {

namespace {

using namespace cpu_kernels;

/** Returns a view of x with one row per group; the elements of a group are contiguous. */
Tensor groups_of(const Tensor& x, std::int64_t count) {
  const Shape rows{count, count == 0 ? 0 : x.numel() / count};
  return alias(x, rows, contiguous_strides(rows), x.impl()->offset);
}

/** The same runs as those of one sample, whose coefficients are all different. */
ChannelShape as_one_sample(ChannelShape s) {
  s.channels = s.runs();
  s.samples = 1;
  return s;
}

template <class C> void forward(Inputs in, Outputs out, double eps) {
  const Tensor x = row_major(in[0]);
  const ChannelShape s(x.shape());
  const std::int64_t groups = out[1].shape()[1],
                     per_group = s.channels / std::max<std::int64_t>(1, groups);
  C *mean = out[1].data<C>(), *rstd = out[2].data<C>(), *var = out[3].data<C>();
  const std::int64_t all_groups = s.samples * groups;
  line_statistics(groups_of(x, all_groups), 2u, static_cast<C>(eps), mean, var, rstd, all_groups);
  if (x.numel() == 0) return;  // the number of runs may then be huge
  const std::vector<C> weight = channel_values<C>(in[1], s.channels, 1),
                       bias = channel_values<C>(in[2], s.channels, 0);
  const auto runs = static_cast<std::size_t>(s.runs());
  std::vector<C> run_mean(runs), scale(runs), shift(runs);
  for (std::size_t r = 0; r < runs; ++r) {
    const std::size_t channel = r % weight.size(), group = r / static_cast<std::size_t>(per_group);
    run_mean[r] = mean[group];
    scale[r] = rstd[group] * weight[channel];
    shift[r] = bias[channel];
  }
  map_runs<C, 1>({x}, out[0], as_one_sample(s),
                 Normalising<C>{run_mean.data(), scale.data(), shift.data()});
}

/** The gradient of x: scale * g - shift - (x * unit - mean) * from_x, with coefficients of each
 *  run; its mean is multiplied by the unit. */
template <class C> struct RunGradient {
  const C *scale, *shift, *unit, *mean, *from_x;

  template <class L> auto at(std::int64_t r) const {
    using V = typename L::V;
    return [a = L::load(scale + r), q = L::load(shift + r), u = L::load(unit + r),
            m = L::load(mean + r),
            p = L::load(from_x + r)](V g, V x) { return g * a - q - (x * u - m) * p; };
  }
};

template <class C> void backward(Inputs in, Outputs out) {
  const Tensor g = row_major(in[0]), x = row_major(in[1]), mean_values = row_major(in[3]),
               rstd_values = row_major(in[4]);
  const ChannelShape s(x.shape());
  if (x.numel() == 0) {
    for (const int affine : {1, 2})
      std::fill_n(static_cast<C*>(out[affine].raw_data()), s.channels, C(0));
    return;
  }
  const std::int64_t groups = mean_values.shape()[1],
                     per_group = s.channels / std::max<std::int64_t>(1, groups);
  const C *mean = mean_values.data<C>(), *rstd = rstd_values.data<C>();
  const std::vector<C> weight = channel_values<C>(in[2], s.channels, 1);
  const std::size_t count = static_cast<std::size_t>(s.runs());
  std::vector<C> run_mean(count);
  for (std::size_t r = 0; r < count; ++r)
    run_mean[r] = mean[r / static_cast<std::size_t>(per_group)];
  std::vector<GradientSums<C>> sums(count);
  visit_read_type<C, 2>({g, x}, [&]<class X>(std::type_identity<X>) {
    run_sums<C, X>(g, x, as_one_sample(s), run_mean.data(), sums.data(), NoGate{});
  });

  // dx = rstd * (g * w - mean(g * w) - (x - mean) * rstd^2 * mean(g * w * (x - mean))), where the
  // means are over the group.
  std::vector<C> scale(count), from_x(count), shift(count), unit(count);
  const C elements = static_cast<C>(per_group * s.inner);
  for (std::int64_t k = 0; k < s.samples * groups; ++k) {
    GradientSums<C> total;
    const std::int64_t first = k * per_group;
    for (std::int64_t r = first; r < first + per_group; ++r) {
      const C w = weight[static_cast<std::size_t>(r % s.channels)];
      total = total + GradientSums<C>{w * sums[static_cast<std::size_t>(r)].g,
                                      w * sums[static_cast<std::size_t>(r)].gx};
    }
    for (std::int64_t r = first; r < first + per_group; ++r) {
      const auto run = static_cast<std::size_t>(r);
      scale[run] = weight[static_cast<std::size_t>(r % s.channels)] * rstd[k];
      const C along = total.gx / elements;
      unit[run] = op::unit_of(rstd[k]);
      run_mean[run] *= unit[run];
      from_x[run] = op::slope_of(rstd[k], rstd[k], along, unit[run]);
      shift[run] = rstd[k] * (total.g / elements);
    }
  }
  map_runs<C, 2>(
      {g, x}, out[0], as_one_sample(s),
      RunGradient<C>{scale.data(), shift.data(), unit.data(), run_mean.data(), from_x.data()});

  for (std::size_t r = 0; r < count; ++r)
    sums[r].gx *= rstd[r / static_cast<std::size_t>(per_group)];
  add_rows_pairwise(sums.data(), s.samples, s.channels);
  for (std::int64_t c = 0; c < s.channels; ++c) {
    const GradientSums<C>& total = sums[static_cast<std::size_t>(c)];
    static_cast<C*>(out[1].raw_data())[c] = total.gx;
    static_cast<C*>(out[2].raw_data())[c] = total.g;
  }
}

}  // namespace

namespace op {

void GroupNorm::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  visit_floating_compute(in[0].dtype(),
                         [&]<class C>(std::type_identity<C>) { forward<C>(in, out, attrs.eps); });
}

void GroupNormBackward::cpu(Inputs in, Outputs out, const Attrs&) {
  visit_floating_compute(in[1].dtype(),
                         [&]<class C>(std::type_identity<C>) { mezzo::backward<C>(in, out); });
}

void InstanceNorm::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  visit_floating_compute(in[0].dtype(),
                         [&]<class C>(std::type_identity<C>) { forward<C>(in, out, attrs.eps); });
}

}  // namespace op

}  // namespace mezzo
