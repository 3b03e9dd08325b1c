// Adam, AdamW and FusedAdam: steps scaled by running means of the gradient and of its square.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "optimizer_of.h"

namespace mezzo::optim {

struct AdamUpdate;

/** The optimizers of one formula: they differ in the defaults of their options. */
enum class AdamKind : std::uint8_t {
  adam,    // PyTorch's Adam
  adam_w,  // PyTorch's AdamW
  fused,   // the FusedAdam of apex
};

/** Options of Adam, AdamW and FusedAdam. */
template <AdamKind kKind> struct AdamOptionsOf {
  double lr = 1e-3;                             // learning rate
  std::pair<double, double> betas{0.9, 0.999};  // decay rates of the two running means
  double eps = 1e-8;                            // added to the root in the divisor
  /** Factor of the parameter, see adam_w_mode; 1e-2 in AdamW. */
  double weight_decay = kKind == AdamKind::adam_w ? 1e-2 : 0;
  bool bias_correction = true;  // divide the running means by 1 - beta^t
  /** Decoupled weight decay: p -= lr * weight_decay * p. False, as in
   *  Adam: L2, weight_decay * p is added to the gradient. */
  bool adam_w_mode = kKind != AdamKind::adam;
  bool amsgrad = false;   // divide by the largest mean of squares so far
  bool maximize = false;  // go up the gradient instead of down
  /** Returns true if all options are the same. */
  bool operator==(const AdamOptionsOf&) const = default;
};
/** What Adam takes: no weight decay, as in PyTorch. */
using AdamOptions = AdamOptionsOf<AdamKind::adam>;
/** What AdamW takes: decoupled weight decay, as in PyTorch. */
using AdamWOptions = AdamOptionsOf<AdamKind::adam_w>;
/** What FusedAdam takes: the defaults of apex. */
using FusedAdamOptions = AdamOptionsOf<AdamKind::fused>;

/** The formula and the options of Adam, AdamW or FusedAdam, for OptimizerOf. */
template <AdamKind kKind> struct MZ_API AdamRuleOf {
  /** Options of one group. */
  using Options = AdamOptionsOf<kKind>;
  /** The formula of one element. */
  using Update = AdamUpdate;
  /** Name of the optimizer's class. */
  static constexpr std::string_view type_name = kKind == AdamKind::adam     ? "Adam"
                                                : kKind == AdamKind::adam_w ? "AdamW"
                                                                            : "FusedAdam";
  /** The update divides scaled gradients, 16-bit ones included, itself. */
  static constexpr bool kUnscalesItself = kKind == AdamKind::fused;
  /** Running means of the gradient and of its square; with amsgrad the largest of the latter. */
  static constexpr std::array<StateSpec, 3> states{
      {{"exp_avg"}, {"exp_avg_sq"}, {"max_exp_avg_sq"}}};

  /** Returns a bit for each state that the options need. */
  static unsigned kept_states(const Options& o) { return o.amsgrad ? 7 : 3; }
  /** Throws ValueError for an option out of range. */
  static void check(const Options& options);
  /** Calls `visit` with the name of each option, a reference to it, and whether the state dict has
   *  it: it lacks what only few programs set, as those of before the option existed do. */
  template <class AnyOptions, class Visit> static void fields(AnyOptions& o, const Visit& visit) {
    constexpr bool kAll = kKind == AdamKind::fused;
    visit_adaptive_options(o, visit);
    visit("amsgrad", o.amsgrad, o.amsgrad);
    visit("maximize", o.maximize, o.maximize);
    visit("bias_correction", o.bias_correction, kAll || !o.bias_correction);
    visit("adam_w_mode", o.adam_w_mode, kAll || o.adam_w_mode != Options{}.adam_w_mode);
  }
};

extern template class MZ_API OptimizerOf<AdamRuleOf<AdamKind::adam>>;
extern template class MZ_API OptimizerOf<AdamRuleOf<AdamKind::adam_w>>;
extern template class MZ_API OptimizerOf<AdamRuleOf<AdamKind::fused>>;

/** Adam. m and v are running means of g and g^2, with g the gradient plus weight_decay * p; at a
 *  parameter's update t, p -= lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps). With
 *  amsgrad v is the largest of its values so far (Reddi, Kale, Kumar, On the convergence of Adam
 *  and beyond, 2018).
 *  Precision: f32 arithmetic and state for f16, bf16, f32; f64 for f64; the corrections in f64;
 *  one rounding per step. Errors: ValueError unless lr, eps, weight_decay >= 0 and betas in [0,
 *  1). Source: Kingma, Ba, Adam: a method for stochastic optimization, 2015. */
class MZ_API Adam final : public OptimizerOf<AdamRuleOf<AdamKind::adam>> {
 public:
  using OptimizerOf::OptimizerOf;
};

/** Adam with decoupled weight decay, which does not enter the running means: p -= lr * (... +
 *  weight_decay * p). Precision, errors: as Adam. Source: Loshchilov, Hutter, Decoupled weight
 *  decay regularization, 2019. */
class MZ_API AdamW final : public OptimizerOf<AdamRuleOf<AdamKind::adam_w>> {
 public:
  using OptimizerOf::OptimizerOf;
};

/** AdamW by default, with the defaults of apex. Under a GradScaler it unscales
 *  gradients, 16-bit ones included, in the same pass as the update. Precision: as Adam. Errors: as
 *  Adam. Source: apex.optimizers.FusedAdam (options and defaults; that refuses amsgrad). */
class MZ_API FusedAdam final : public OptimizerOf<AdamRuleOf<AdamKind::fused>> {
 public:
  using OptimizerOf::OptimizerOf;
};

}  // namespace mezzo::optim
