// Adamax: Adam with the largest magnitude of the gradient instead of its mean square.
#pragma once

#include <array>
#include <utility>

#include "optimizer_of.h"

namespace mezzo::optim {

struct AdamaxUpdate;

/** Options of Adamax. */
struct AdamaxOptions {
  double lr = 2e-3;                             // learning rate
  std::pair<double, double> betas{0.9, 0.999};  // decay rates of mean and largest magnitude
  double eps = 1e-8;                            // added to each magnitude
  double weight_decay = 0;                      // L2: weight_decay * p is added to the gradient
  bool maximize = false;                        // go up the gradient instead of down
  /** Returns true if all options are the same. */
  bool operator==(const AdamaxOptions&) const = default;
};

/** The formula and the options of Adamax, for OptimizerOf. */
struct MZ_API AdamaxRule {
  /** Options of one group. */
  using Options = AdamaxOptions;
  /** The formula of one element. */
  using Update = AdamaxUpdate;
  /** Name of the optimizer's class. */
  static constexpr std::string_view type_name = "Adamax";
  /** Running mean of the gradient, and its decayed largest magnitude. */
  static constexpr std::array<StateSpec, 2> states{{{"exp_avg"}, {"exp_inf"}}};

  /** Throws ValueError for an option out of range. */
  static void check(const Options& options);
  /** Calls `visit` with the name of each option and a reference to it. The state dict has them. */
  template <class Visit> static void fields(Options& o, const Visit& visit) {
    visit_adaptive_options(o, visit);
    visit("maximize", o.maximize, o.maximize);
  }
};

extern template class MZ_API OptimizerOf<AdamaxRule>;

/** Adamax. With g the gradient plus weight_decay * p: m is a running mean of g; u = max(beta2 * u,
 *  |g| + eps); at a parameter's update t, p -= lr / (1 - beta1^t) * m / u.
 *  Precision: f32 arithmetic and state for f16, bf16, f32; f64 for f64; one rounding per step.
 *  Errors: ValueError unless lr, eps, weight_decay >= 0 and betas in [0, 1). Source: Kingma, Ba,
 *  Adam: a method for stochastic optimization, 2015; torch.optim.Adamax (options, defaults). */
class MZ_API Adamax final : public OptimizerOf<AdamaxRule> {
 public:
  using OptimizerOf::OptimizerOf;
};

}  // namespace mezzo::optim
