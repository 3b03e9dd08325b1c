// Adam, AdamW and FusedAdam: steps scaled by running means of the gradient and of its square.
// Sees: optimizer_of.h.
// Read next: updates/adam.h (the formula).
#pragma once

#include <array>
#include <utility>

#include "optimizer_of.h"

namespace mezzo::optim {

struct AdamOptions {
  double lr = 1e-3;
  std::pair<double, double> betas{0.9, 0.999};  // how much of the running means is kept per step
  double eps = 1e-8;
  double weight_decay = 0;  // L2: this times the weight joins the gradient
};

struct AdamWOptions {
  double lr = 1e-3;
  std::pair<double, double> betas{0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 1e-2;  // decoupled: lr times this times the weight leaves the weight
};

struct FusedAdamOptions {
  double lr = 1e-3;
  std::pair<double, double> betas{0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  bool bias_correction = true;  // false: the means are used as they are, too small in the first steps
  bool adam_w_mode = true;      // decoupled weight decay; false: L2
  bool amsgrad = false;         // refused
};

/** What Adam and AdamW share; they differ in options and in where the decay enters. */
template <class AnyOptions> struct AdamRuleBase {
  using Options = AnyOptions;
  using Update = AdamUpdate;
  static constexpr std::array<StateSpec, 2> states{{{"exp_avg"}, {"exp_avg_sq"}}};

  static bool keeps_state(const Options&) { return true; }
  template <class Visit> static void fields(Options& o, const Visit& visit) {
    visit_adaptive_options(o, visit);
  }
};

struct MZ_API AdamRule : AdamRuleBase<AdamOptions> {
  static constexpr std::string_view type_name = "Adam";
  static void check(const Options& options);
  static AdamSettings settings(const Options& options, std::int64_t step, bool fresh);
};

struct MZ_API AdamWRule : AdamRuleBase<AdamWOptions> {
  static constexpr std::string_view type_name = "AdamW";
  static void check(const Options& options);
  static AdamSettings settings(const Options& options, std::int64_t step, bool fresh);
};

struct MZ_API FusedAdamRule : AdamRuleBase<FusedAdamOptions> {
  static constexpr std::string_view type_name = "FusedAdam";
  static constexpr bool kUnscalesItself = true;
  static void check(const Options& options);
  static AdamSettings settings(const Options& options, std::int64_t step, bool fresh);
  template <class Visit> static void fields(Options& o, const Visit& visit) {
    AdamRuleBase::fields(o, visit);
    visit("bias_correction", o.bias_correction);
    visit("adam_w_mode", o.adam_w_mode);
  }
};

extern template class MZ_API OptimizerOf<AdamRule>;
extern template class MZ_API OptimizerOf<AdamWRule>;
extern template class MZ_API OptimizerOf<FusedAdamRule>;

/** m and v are running means of g and g^2, g the gradient plus weight_decay * p; at a parameter's update t,
 *  p -= lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps).
 *  Precision: f32 arithmetic and state for f16, bf16, f32; f64 for f64; the corrections in f64; one rounding per step.
 *  Errors: ValueError unless lr, eps, weight_decay >= 0 and betas in [0, 1).
 *  Source: Kingma, Ba, Adam: a method for stochastic optimization, 2015. */
class MZ_API Adam final : public OptimizerOf<AdamRule> {
 public:
  using OptimizerOf::OptimizerOf;
};

/** Adam whose decay does not pass through the running means: p -= lr * (... + weight_decay * p).
 *  Precision, errors: as Adam. Source: Loshchilov, Hutter, Decoupled weight decay regularization, 2019. */
class MZ_API AdamW final : public OptimizerOf<AdamWRule> {
 public:
  using OptimizerOf::OptimizerOf;
};

/** Adam or AdamW by an option, with apex's defaults; under a GradScaler it unscales in the pass that updates, 16-bit gradients too.
 *  Precision: as Adam. Errors: as Adam; ValueError for amsgrad. Source: apex.optimizers.FusedAdam (options and defaults). */
class MZ_API FusedAdam final : public OptimizerOf<FusedAdamRule> {
 public:
  using OptimizerOf::OptimizerOf;
};

}  // namespace mezzo::optim
