// RMSprop: steps divided by a running root mean square of the gradient.
#pragma once

#include <array>

#include "optimizer_of.h"

namespace mezzo::optim {

struct RmsPropUpdate;

/** Options of RMSprop. */
struct RMSpropOptions {
  double lr = 1e-2;         // learning rate
  double alpha = 0.99;      // decay rate of the running mean of squares
  double eps = 1e-8;        // added to the root in the divisor
  double weight_decay = 0;  // L2: weight_decay * p is added to the gradient
  double momentum = 0;      // factor of the momentum buffer
  bool centered = false;    // divide by the standard deviation instead of the root mean square
  bool maximize = false;    // go up the gradient instead of down
  /** Returns true if all options are the same. */
  bool operator==(const RMSpropOptions&) const = default;
};

/** The formula and the options of RMSprop, for OptimizerOf. */
struct MZ_API RMSpropRule {
  /** Options of one group. */
  using Options = RMSpropOptions;
  /** The formula of one element. */
  using Update = RmsPropUpdate;
  /** Name of the optimizer's class. */
  static constexpr std::string_view type_name = "RMSprop";
  /** Running mean of squares; the momentum buffer; with centered the running mean of the gradient.
   */
  static constexpr std::array<StateSpec, 3> states{
      {{"square_avg"}, {"momentum_buffer"}, {"grad_avg"}}};
  /** Returns a bit for each state that the options need. */
  static unsigned kept_states(const Options& o) {
    return 1u | (o.momentum != 0 ? 2u : 0u) | (o.centered ? 4u : 0u);
  }
  /** Throws ValueError for an option out of range. */
  static void check(const Options& options);
  /** Calls `visit` with the name of each option and a reference to it. The state dict has them. */
  template <class Visit> static void fields(Options& o, const Visit& visit) {
    visit("lr", o.lr);
    visit("alpha", o.alpha);
    visit("eps", o.eps);
    visit("weight_decay", o.weight_decay);
    visit("momentum", o.momentum);
    visit("centered", o.centered);
    visit("maximize", o.maximize, o.maximize);
  }
};

extern template class MZ_API OptimizerOf<RMSpropRule>;

/** RMSprop. With g the gradient plus weight_decay * p: s = alpha * s + (1 - alpha) * g^2, and with
 *  centered a = alpha * a + (1 - alpha) * g; u = g / (sqrt(s - a^2) + eps), a = 0 unless centered;
 *  p -= lr * u, with momentum b = momentum * b + u and p -= lr * b. A difference s - a^2 that
 *  rounding made negative counts as 0. Unlike PyTorch, which takes its root: nan.
 *  Precision: f32 arithmetic and state for f16, bf16, f32; f64 for f64; one rounding per step.
 *  Errors: ValueError unless lr, eps, weight_decay, momentum >= 0 and alpha in [0, 1). Source:
 *  Tieleman, Hinton, Lecture 6.5, Neural networks for machine learning, 2012; torch.optim.RMSprop
 *  (options and defaults). */
class MZ_API RMSprop final : public OptimizerOf<RMSpropRule> {
 public:
  using OptimizerOf::OptimizerOf;
};

}  // namespace mezzo::optim
