// NAdam: Adam with Nesterov momentum.
#pragma once

#include <array>
#include <span>
#include <utility>
#include <vector>

#include "optimizer_of.h"

namespace mezzo::optim {

struct NAdamSettings;
struct NAdamUpdate;

/** Options of NAdam. */
struct NAdamOptions {
  double lr = 2e-3;                             // learning rate
  std::pair<double, double> betas{0.9, 0.999};  // decay rates of the two running means
  double eps = 1e-8;                            // added to the root in the divisor
  double weight_decay = 0;                      // factor of the parameter
  double momentum_decay = 4e-3;                 // how fast the momentum grows to betas.first
  bool decoupled_weight_decay = false;          // p *= 1 - lr * weight_decay; false: L2
  bool maximize = false;                        // go up the gradient instead of down
  /** Returns true if all options are the same. */
  bool operator==(const NAdamOptions&) const = default;
};

/** The formula and the options of NAdam, for OptimizerOf. */
struct MZ_API NAdamRule {
  /** Options of one group. */
  using Options = NAdamOptions;
  /** The formula of one element. */
  using Update = NAdamUpdate;
  /** Name of the optimizer's class. */
  static constexpr std::string_view type_name = "NAdam";
  /** Running means of the gradient and of its square; one product of all momenta. */
  static constexpr std::array<StateSpec, 3> states{
      {{"exp_avg"}, {"exp_avg_sq"}, {"mu_product", StateExtent::tensor}}};

  /** Throws ValueError for an option out of range. */
  static void check(const Options& options);
  /** Updates the products of all parameters, then all parameters. Allocates before anything
   *  changes. */
  static void run(std::vector<TensorTuple> tensors, std::span<NAdamSettings> settings,
                  const UpdateCall& call);
  /** Calls `visit` with the name of each option and a reference to it. The state dict has them. */
  template <class Visit> static void fields(Options& o, const Visit& visit) {
    visit_adaptive_options(o, visit);
    visit("momentum_decay", o.momentum_decay);
    visit("decoupled_weight_decay", o.decoupled_weight_decay);
    visit("maximize", o.maximize, o.maximize);
  }
};

extern template class MZ_API OptimizerOf<NAdamRule>;

/** NAdam. m and v are running means of g and g^2 as Adam's. The momentum of a parameter's update t
 * is mu(t) = beta1 * (1 - 0.96^(t * momentum_decay) / 2), and M the product of mu(1) to mu(t); p -=
 * lr * (g * (1 - mu(t)) / (1 - M) + m * mu(t + 1) / (1 - M * mu(t + 1))) / (sqrt(v / (1 - beta2^t))
 * + eps). Precision: f32 arithmetic and state for f16, bf16, f32; f64 for f64; the momenta in f64;
 * one rounding per step. Errors: ValueError unless lr, eps, weight_decay, momentum_decay >= 0 and
 * betas in [0, 1). Source: Dozat, Incorporating Nesterov momentum into Adam, 2016;
 * torch.optim.NAdam (options, defaults). */
class MZ_API NAdam final : public OptimizerOf<NAdamRule> {
 public:
  using OptimizerOf::OptimizerOf;
};

}  // namespace mezzo::optim
