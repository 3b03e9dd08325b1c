// RAdam: Adam with a rectified variance of its first updates.
#pragma once

#include <array>
#include <utility>

#include "optimizer_of.h"

namespace mezzo::optim {

struct RAdamUpdate;

/** Options of RAdam. */
struct RAdamOptions {
  double lr = 1e-3;                             // learning rate
  std::pair<double, double> betas{0.9, 0.999};  // decay rates of the two running means
  double eps = 1e-8;                            // added to the root in the divisor
  double weight_decay = 0;                      // factor of the parameter
  bool decoupled_weight_decay = false;          // p *= 1 - lr * weight_decay; false: L2
  bool maximize = false;                        // go up the gradient instead of down
  /** Returns true if all options are the same. */
  bool operator==(const RAdamOptions&) const = default;
};

/** The formula and the options of RAdam, for OptimizerOf. */
struct MZ_API RAdamRule {
  /** Options of one group. */
  using Options = RAdamOptions;
  /** The formula of one element. */
  using Update = RAdamUpdate;
  /** Name of the optimizer's class. */
  static constexpr std::string_view type_name = "RAdam";
  /** Running means of the gradient and of its square. */
  static constexpr std::array<StateSpec, 2> states{{{"exp_avg"}, {"exp_avg_sq"}}};

  /** Throws ValueError for an option out of range. */
  static void check(const Options& options);
  /** Calls `visit` with the name of each option and a reference to it. The state dict has them. */
  template <class Visit> static void fields(Options& o, const Visit& visit) {
    visit_adaptive_options(o, visit);
    visit("decoupled_weight_decay", o.decoupled_weight_decay);
    visit("maximize", o.maximize, o.maximize);
  }
};

extern template class MZ_API OptimizerOf<RAdamRule>;

/** RAdam. m and v are running means of g and g^2 as Adam's. With n = 2 / (1 - beta2) - 1 and r = n
 * - 2 t beta2^t / (1 - beta2^t) at a parameter's update t: if r > 5, p -= lr * c * (m / (1 -
 * beta1^t)) / (sqrt(v) + eps), c = sqrt((r - 4)(r - 2) n (1 - beta2^t) / ((n - 4)(n - 2) r)); else
 * p -= lr * m / (1 - beta1^t). Precision: f32 arithmetic and state for f16, bf16, f32; f64 for f64;
 * the corrections in f64; one rounding per step. Errors: ValueError unless lr, eps, weight_decay >=
 * 0 and betas in [0, 1). Source: Liu et al., On the variance of the adaptive learning rate and
 * beyond, 2020; torch.optim.RAdam (options, defaults, place of eps). */
class MZ_API RAdam final : public OptimizerOf<RAdamRule> {
 public:
  using OptimizerOf::OptimizerOf;
};

}  // namespace mezzo::optim
