// Kernels of batch_norm, of batch_norm fused with relu, of their gradients, and of the update of
// running statistics.
#include "batch_norm.h"

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "../../core/convert_value.h"
#include "../../core/row_major.h"
#include "../../cpu/block_map.h"
#include "../../cpu/channel_runs.h"
#include "batch_norm_gradient_cpu.h"
#include "line_statistics_cpu.h"

namespace mezzo {

namespace {

using namespace cpu_kernels;

/** Updates a running statistic of any dtype in place. */
template <class C>
void track(const Tensor& running, const C* batch, const op::UpdateRunning::Attrs& attrs) {
  if (!running.defined()) return;
  std::vector<C> values = channel_values<C>(running, running.numel(), 0);
  for (std::size_t c = 0; c < values.size(); ++c)
    values[c] = op::updated_running(attrs, values[c], batch[c]);
  BlockWriter<C>(running).copy(0, running.numel(), values.data());
}

/** Returns g where y is positive or NaN, else 0, for numbers and vectors. */
template <class V> V passed(V g, V y) { return y <= V{} ? V{} : g; }

/** Computes relu(norm(x)). */
template <class C> struct Rectifying {
  Normalising<C> norm;

  template <class L> auto at(std::int64_t c) const {
    return [norm = norm.template at<L>(c)](typename L::V x) {
      const typename L::V y = norm(x);
      return passed(y, y);
    };
  }
};

/** Returns x, a number or a vector, rounded to T. */
template <class T, class V> V rounded(V x) {
  if constexpr (std::is_arithmetic_v<V>)
    return converted<V>(converted<T>(x));
  else if constexpr (sizeof(T) == 2)
    return Simd<float>::rounded<T>(x);
  else
    return x;
}

/** Computes relu(norm(x) + residual), where norm(x) is rounded to T. */
template <class T, class C> struct AddingRectifying {
  Normalising<C> norm;

  template <class L> auto at(std::int64_t c) const {
    using V = typename L::V;
    return [norm = norm.template at<L>(c)](V x, V residual) {
      const V y = rounded<T, V>(norm(x)) + residual;
      return passed(y, y);
    };
  }
};

/** Computes the gradient of relu from its result. */
template <class C> struct ReluGradient {
  template <class L> auto at(std::int64_t) const {
    return [](typename L::V g, typename L::V y) { return passed(g, y); };
  }
};

/** Computes the same for the gradient g + other, rounded to T. */
template <class T, class C> struct ReluGradientOfSum {
  template <class L> auto at(std::int64_t) const {
    return [](typename L::V g, typename L::V other, typename L::V y) {
      return passed(rounded<T, typename L::V>(g + other), y);
    };
  }
};

/** Computes the statistics, then calls write(x, shape, Normalising). */
template <class C, class Write>
void forward(Inputs in, Outputs out, const op::BatchNorm::Attrs& attrs, const Write& write) {
  const Tensor x = channels_as_in(out[0], in[0]);
  const ChannelShape s(x.shape());
  C *mean = out[1].data<C>(), *rstd = out[2].data<C>(), *var = out[3].data<C>();
  const C eps = static_cast<C>(attrs.eps);
  if (attrs.training) {
    line_statistics(x, all_but_channels(x), eps, mean, var, rstd, s.channels);
    if (attrs.tracks) {
      track(in[3], mean, {attrs.momentum, 1});
      track(in[4], var, {attrs.momentum, op::unbiased_scale(s.samples * s.inner)});
      if (in[5].defined()) ++*in[5].data<std::int64_t>();
    }
  } else {
    const auto given_mean = channel_values<C>(in[3], s.channels, 0),
               given_var = channel_values<C>(in[4], s.channels, 1);
    std::copy(given_mean.begin(), given_mean.end(), mean);
    std::copy(given_var.begin(), given_var.end(), var);
    for (std::int64_t c = 0; c < s.channels; ++c) rstd[c] = C(1) / std::sqrt(var[c] + eps);
  }
  std::vector<C> scale = channel_values<C>(in[1], s.channels, 1);
  const std::vector<C> shift = channel_values<C>(in[2], s.channels, 0);
  for (std::int64_t c = 0; c < s.channels; ++c) scale[static_cast<std::size_t>(c)] *= rstd[c];
  write(x, s, Normalising<C>{mean, scale.data(), shift.data()});
}

template <class C> void plain_forward(Inputs in, Outputs out, const op::BatchNorm::Attrs& attrs) {
  forward<C>(in, out, attrs, [&](const Tensor& x, const ChannelShape& s, Normalising<C> norm) {
    map_runs<C, 1>({x}, out[0], s, norm);
  });
}

template <class C> void relu_forward(Inputs in, Outputs out, const op::BatchNorm::Attrs& attrs) {
  forward<C>(in, out, attrs, [&](const Tensor& x, const ChannelShape& s, Normalising<C> norm) {
    if (!in[6].defined()) return map_runs<C, 1>({x}, out[0], s, Rectifying<C>{norm});
    const Tensor residual = channels_as_in(out[0], in[6]);
    visit_floating(x.dtype(), [&]<class T>(std::type_identity<T>) {
      if constexpr (std::is_same_v<ComputeOf<T>, C>)
        map_runs_read_as<ReadType<C, T>, C, 2>({x, residual}, out[0], s,
                                               AddingRectifying<T, C>{norm});
    });
  });
}

template <class C, class Gate>
void backward(const BackwardOperands<C>& in, Outputs out, bool training, const Gate& gate) {
  const auto sums = channel_sums(in.g, in.x, in.s, in.mean.template data<C>(), gate);
  write_affine_gradients(in.s, sums.data(), in.rstd.template data<C>(),
                         static_cast<C*>(out[1].raw_data()), static_cast<C*>(out[2].raw_data()));
  const auto count = static_cast<C>(in.s.samples * in.s.inner);
  write_input_gradient(in, sums.data(), training ? std::optional(count) : std::nullopt, out[0],
                       gate);
}

/** Passes g where the relu of the normalised x is positive. */
template <class C> struct ReluGate {
  Normalising<C> norm;
  C zero;  // the largest value that relu's input rounds to 0

  template <class L> auto at(std::int64_t c) const {
    using V = typename L::V;
    return [norm = norm.template at<L>(c), zero = zero](V g, V x) {
      return norm(x) <= zero ? V{} : g;
    };
  }
};

/** Computes the gradient of the residual: the g that relu passes. */
template <class C>
void residual_gradient(Inputs in, const Tensor& g, const ChannelShape& s, Tensor& out) {
  const Tensor y = channels_as_in(out, in[6]), other = channels_as_in(out, in[7]);
  if (!other.defined()) return map_runs<C, 2>({g, y}, out, s, ReluGradient<C>{});
  visit_floating(out.dtype(), [&]<class T>(std::type_identity<T>) {
    if constexpr (std::is_same_v<ComputeOf<T>, C>)
      map_runs_read_as<ReadType<C, T>, C, 3>({g, other, y}, out, s, ReluGradientOfSum<T, C>{});
  });
}

template <class C> void relu_backward(Inputs in, Outputs out, bool training) {
  BackwardOperands<C> operands(in, out[0]);
  if (in[6].defined()) {
    residual_gradient<C>(in, operands.g, operands.s, out[3]);
    operands.g = out[3];
    return backward<C>(operands, out, training, NoGate{});
  }
  const std::vector<C> shift = channel_values<C>(in[5], operands.s.channels, 0);
  const Normalising<C> norm{operands.mean.template data<C>(), operands.scale.data(), shift.data()};
  const C zero = static_cast<C>(op::largest_rounded_to_zero(operands.x.dtype()));
  backward<C>(operands, out, training, ReluGate<C>{norm, zero});
}

template <class C>
void update_block(const C* const* in, C* const* out, std::int64_t n, const void* address) {
  const auto& attrs = *static_cast<const op::UpdateRunning::Attrs*>(address);
  for (std::int64_t i = 0; i < n; ++i) out[0][i] = op::updated_running(attrs, in[0][i], in[1][i]);
}

}  // namespace

namespace op {

void BatchNorm::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  visit_floating_compute(in[0].dtype(),
                         [&]<class C>(std::type_identity<C>) { plain_forward<C>(in, out, attrs); });
}

void BatchNormRelu::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  visit_floating_compute(in[0].dtype(),
                         [&]<class C>(std::type_identity<C>) { relu_forward<C>(in, out, attrs); });
}

void BatchNormBackward::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  visit_floating_compute(in[1].dtype(), [&]<class C>(std::type_identity<C>) {
    mezzo::backward(BackwardOperands<C>(in, out[0]), out, attrs.training, NoGate{});
  });
}

void BatchNormReluBackward::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  visit_floating_compute(in[1].dtype(), [&]<class C>(std::type_identity<C>) {
    relu_backward<C>(in, out, attrs.training);
  });
}

void UpdateRunning::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  constexpr BlockFns update{&update_block<float>, &update_block<double>};
  map_blocks(update, in[1].dtype() == DType::f64 ? DType::f64 : DType::f32, in, out, &attrs);
}

}  // namespace op

}  // namespace mezzo
