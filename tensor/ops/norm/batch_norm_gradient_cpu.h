// The sums and the map from which the gradients of batch norm are computed.
#pragma once

#include <optional>
#include <vector>

#include "../../core/row_major.h"
#include "../../cpu/channel_runs.h"

namespace mezzo::cpu_kernels {

/** The operands of the gradients in one memory format, and the scale of each channel. */
template <class C> struct BackwardOperands {
  Tensor g, x, mean, rstd;
  ChannelShape s;
  std::vector<C> scale;  // rstd * weight

  /** Brings g, x, weight, mean and rstd into the format of gx. */
  BackwardOperands(Inputs in, const Tensor& gx)
      : g(channels_as_in(gx, in[0])),
        x(channels_as_in(gx, in[1])),
        mean(row_major(in[3])),
        rstd(row_major(in[4])),
        s(x.shape()),
        scale(channel_values<C>(in[2], s.channels, 1)) {
    for (std::size_t c = 0; c < scale.size(); ++c) scale[c] *= rstd.template data<C>()[c];
  }
};

/** Returns the sums over each channel from which the gradients are computed. */
template <class C, class Gate>
std::vector<GradientSums<C>> channel_sums(const Tensor& g, const Tensor& x, const ChannelShape& s,
                                          const C* mean, const Gate& gate) {
  const bool is_empty = s.runs() * s.inner == 0;  // the number of runs may then be huge
  std::vector<GradientSums<C>> sums(
      static_cast<std::size_t>(is_empty || s.inner == 1 ? s.channels : s.runs()));
  if (is_empty) return sums;
  visit_read_type<C, 2>({g, x}, [&]<class X>(std::type_identity<X>) {
    if (s.inner == 1)
      column_sums<C, X>(g, x, s, mean, sums.data(), gate);
    else
      run_sums<C, X>(g, x, s, mean, sums.data(), gate);
  });
  if (s.inner > 1) add_rows_pairwise(sums.data(), s.samples, s.channels);
  return sums;
}

/** Writes the gradients of weight and bias, [C]. */
template <class C>
void write_affine_gradients(const ChannelShape& s, const GradientSums<C>* sums, const C* rstd,
                            C* weight, C* bias) {
  const bool is_empty = s.samples * s.inner == 0;  // rstd may then be NaN
  for (std::int64_t c = 0; c < s.channels; ++c) {
    weight[c] = is_empty ? C(0) : sums[c].gx * rstd[c];
    bias[c] = sums[c].g;
  }
}

/** The gradient of x where the statistics are constants. */
template <class C, class Gate> struct ScaledGradient {
  const C* scale;
  Gate gate;

  template <class L> auto at(std::int64_t c) const {
    using V = typename L::V;
    return [a = L::load(scale + c), gated = gate.template at<L>(c)](V g, V x) {
      return a * gated(g, x);
    };
  }
};

/** The gradient of x where the statistics depend on x. */
template <class C, class Gate> struct CentredGradient {
  const C *scale, *mean, *from_x, *shift;
  Gate gate;

  template <class L> auto at(std::int64_t c) const {
    using V = typename L::V;
    return [a = L::load(scale + c), m = L::load(mean + c), p = L::load(from_x + c),
            q = L::load(shift + c), gated = gate.template at<L>(c)](V g, V x) {
      return a * (gated(g, x) - q - (x - m) * p);
    };
  }
};

/** Writes the gradient of x: scale * (g - mean(g) - (x - mean) * rstd^2 * mean(g * (x - mean))),
 *  where the means are `sums` / `count`; without a count, scale * g. */
template <class C, class Gate>
void write_input_gradient(const BackwardOperands<C>& in, const GradientSums<C>* sums,
                          std::optional<C> count, Tensor& gx, const Gate& gate) {
  const auto write = [&](const auto& gradient) {
    map_runs<C, 2>({in.g, in.x}, gx, in.s, gradient);
  };
  if (!count) return write(ScaledGradient<C, Gate>{in.scale.data(), gate});
  const C *mean = in.mean.template data<C>(), *rstd = in.rstd.template data<C>();
  std::vector<C> from_x(in.scale.size()), shift(in.scale.size());
  for (std::size_t c = 0; c < shift.size(); ++c) {
    const C along = sums[c].gx / *count;
    from_x[c] = op::is_extreme(rstd[c]) ? rstd[c] * (rstd[c] * along) : rstd[c] * rstd[c] * along;
    shift[c] = sums[c].g / *count;
  }
  write(CentredGradient<C, Gate>{in.scale.data(), mean, from_x.data(), shift.data(), gate});
}

}  // namespace mezzo::cpu_kernels
