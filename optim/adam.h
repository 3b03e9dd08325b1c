// Adam, AdamW and FusedAdam: steps scaled by running means of the gradient and of its square.
#pragma once

#include <array>
#include <utility>

#include "optimizer_of.h"

namespace mezzo::optim {

struct AdamSettings;
struct AdamUpdate;

/** Options of Adam. */
struct AdamOptions {
  double lr = 1e-3;                             // learning rate
  std::pair<double, double> betas{0.9, 0.999};  // decay rates of the two running means
  double eps = 1e-8;                            // added to the root in the divisor
  double weight_decay = 0;                      // L2: weight_decay * p is added to the gradient
  bool amsgrad = false;                         // divide by the largest mean of squares so far
  bool maximize = false;                        // go up the gradient instead of down
};

/** Options of AdamW. */
struct AdamWOptions {
  double lr = 1e-3;                             // learning rate
  std::pair<double, double> betas{0.9, 0.999};  // decay rates of the two running means
  double eps = 1e-8;                            // added to the root in the divisor
  double weight_decay = 1e-2;                   // decoupled: p -= lr * weight_decay * p
  bool amsgrad = false;                         // divide by the largest mean of squares so far
  bool maximize = false;                        // go up the gradient instead of down
};

/** Options of FusedAdam. */
struct FusedAdamOptions {
  double lr = 1e-3;                             // learning rate
  std::pair<double, double> betas{0.9, 0.999};  // decay rates of the two running means
  double eps = 1e-8;                            // added to the root in the divisor
  double weight_decay = 0;                      // factor of the parameter, see adam_w_mode
  bool bias_correction = true;                  // divide the running means by 1 - beta^t
  bool adam_w_mode = true;                      // decoupled weight decay; false: L2
  bool amsgrad = false;                         // not supported: true is an error
};

/** Common part of the rules of Adam, AdamW and FusedAdam. */
template <class AnyOptions> struct AdamRuleBase {
  /** Options of one group. */
  using Options = AnyOptions;
  /** The formula of one element. */
  using Update = AdamUpdate;
  /** Running means of the gradient and of its square; with amsgrad the largest of the latter. */
  static constexpr std::array<StateSpec, 3> states{
      {{"exp_avg"}, {"exp_avg_sq"}, {"max_exp_avg_sq"}}};
  /** Returns a bit for each state that the options need. */
  static unsigned kept_states(const Options& o) { return o.amsgrad ? 7 : 3; }

  /** Calls `visit` with the name of each option and a reference to it. The state dict has them. */
  template <class Visit> static void fields(Options& o, const Visit& visit) {
    visit_adaptive_options(o, visit);
    visit_if_on("amsgrad", o.amsgrad, visit);
    if constexpr (requires { o.maximize; }) visit_if_on("maximize", o.maximize, visit);
  }
};

/** The formula and the options of Adam, for OptimizerOf. */
struct MZ_API AdamRule : AdamRuleBase<AdamOptions> {
  /** Name of the optimizer's class. */
  static constexpr std::string_view type_name = "Adam";
  /** Throws ValueError for an option out of range. */
  static void check(const Options& options);
  /** Returns the settings of a parameter's update number `step`, counted from 1. */
  static AdamSettings settings(const Options& options, std::int64_t step, bool fresh);
};

/** The formula and the options of AdamW, for OptimizerOf. */
struct MZ_API AdamWRule : AdamRuleBase<AdamWOptions> {
  /** Name of the optimizer's class. */
  static constexpr std::string_view type_name = "AdamW";
  /** Throws ValueError for an option out of range. */
  static void check(const Options& options);
  /** Returns the settings of a parameter's update number `step`, counted from 1. */
  static AdamSettings settings(const Options& options, std::int64_t step, bool fresh);
};

/** The formula and the options of FusedAdam, for OptimizerOf. */
struct MZ_API FusedAdamRule : AdamRuleBase<FusedAdamOptions> {
  /** Name of the optimizer's class. */
  static constexpr std::string_view type_name = "FusedAdam";
  /** The update divides scaled gradients, 16-bit ones included, itself. */
  static constexpr bool kUnscalesItself = true;
  /** Throws ValueError for an option out of range. */
  static void check(const Options& options);
  /** Returns the settings of a parameter's update number `step`, counted from 1. */
  static AdamSettings settings(const Options& options, std::int64_t step, bool fresh);
  /** Calls `visit` with the name of each option but amsgrad, and a reference to it. */
  template <class Visit> static void fields(Options& o, const Visit& visit) {
    AdamRuleBase::fields(o, visit);
    visit("bias_correction", o.bias_correction);
    visit("adam_w_mode", o.adam_w_mode);
  }
};

extern template class MZ_API OptimizerOf<AdamRule>;
extern template class MZ_API OptimizerOf<AdamWRule>;
extern template class MZ_API OptimizerOf<FusedAdamRule>;

/** Adam. m and v are running means of g and g^2, with g the gradient plus weight_decay * p; at a
 *  parameter's update t, p -= lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps). With
 *  amsgrad v is the largest of its values so far (Reddi, Kale, Kumar, On the convergence of Adam
 *  and beyond, 2018).
 *  Precision: f32 arithmetic and state for f16, bf16, f32; f64 for f64; the corrections in f64;
 *  one rounding per step. Errors: ValueError unless lr, eps, weight_decay >= 0 and betas in [0,
 *  1). Source: Kingma, Ba, Adam: a method for stochastic optimization, 2015. */
class MZ_API Adam final : public OptimizerOf<AdamRule> {
 public:
  using OptimizerOf::OptimizerOf;
};

/** Adam with decoupled weight decay, which does not enter the running means: p -= lr * (... +
 *  weight_decay * p). Precision, errors: as Adam. Source: Loshchilov, Hutter, Decoupled weight
 *  decay regularization, 2019. */
class MZ_API AdamW final : public OptimizerOf<AdamWRule> {
 public:
  using OptimizerOf::OptimizerOf;
};

/** Adam or AdamW, chosen by adam_w_mode, with apex's defaults. Under a GradScaler it unscales
 *  gradients, 16-bit ones included, in the same pass as the update. Precision: as Adam. Errors: as
 *  Adam; ValueError for amsgrad. Source: apex.optimizers.FusedAdam (options and defaults). */
class MZ_API FusedAdam final : public OptimizerOf<FusedAdamRule> {
 public:
  using OptimizerOf::OptimizerOf;
};

}  // namespace mezzo::optim
