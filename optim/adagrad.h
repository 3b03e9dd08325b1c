// Adagrad and FusedAdagrad: steps divided by the root of the sum of all squared gradients.
#pragma once

#include <array>

#include "optimizer_of.h"

namespace mezzo::optim {

struct AdagradUpdate;

/** Options of Adagrad. */
struct AdagradOptions {
  double lr = 1e-2;                      // learning rate
  double lr_decay = 0;                   // update t has the rate lr / (1 + (t - 1) * lr_decay)
  double weight_decay = 0;               // factor of the parameter, see adagrad_w_mode
  double initial_accumulator_value = 0;  // of the sum of squares
  double eps = 1e-10;                    // added to the root
  bool maximize = false;                 // go up the gradient instead of down
  bool adagrad_w_mode = false;           // decoupled weight decay; false: L2
  /** Returns true if all options are the same. */
  bool operator==(const AdagradOptions&) const = default;
};

/** Options of FusedAdagrad: some of those of Adagrad, in another order. */
struct FusedAdagradOptions {
  double lr = 1e-2;             // learning rate
  double eps = 1e-10;           // added to the root
  double weight_decay = 0;      // factor of the parameter, see adagrad_w_mode
  bool adagrad_w_mode = false;  // decoupled weight decay; false: L2
  /** Returns true if all options are the same. */
  bool operator==(const FusedAdagradOptions&) const = default;
};

/** The formula and the options of Adagrad, for OptimizerOf. */
struct MZ_API AdagradRule {
  /** Options of one group. */
  using Options = AdagradOptions;
  /** The formula of one element. */
  using Update = AdagradUpdate;
  /** Name of the optimizer's class. */
  static constexpr std::string_view type_name = "Adagrad";
  /** The sum of all squared gradients, per element. */
  static constexpr std::array<StateSpec, 1> states{{{"sum"}}};

  /** Throws ValueError in the name of `of` for an option out of range. */
  static void check(const Options& options, std::string_view of = type_name);
  /** Calls `visit` with the name of each option and a reference to it. The state dict has them. */
  template <class Visit> static void fields(Options& o, const Visit& visit) {
    visit("lr", o.lr);
    visit("lr_decay", o.lr_decay);
    visit("weight_decay", o.weight_decay);
    visit("initial_accumulator_value", o.initial_accumulator_value);
    visit("eps", o.eps);
    visit("maximize", o.maximize, o.maximize);
    visit("adagrad_w_mode", o.adagrad_w_mode, o.adagrad_w_mode);
  }
};

/** The formula and the options of FusedAdagrad, for OptimizerOf. */
struct MZ_API FusedAdagradRule {
  /** Options of one group. */
  using Options = FusedAdagradOptions;
  /** The formula of one element. */
  using Update = AdagradUpdate;
  /** Name of the optimizer's class. */
  static constexpr std::string_view type_name = "FusedAdagrad";
  /** The update divides scaled gradients, 16-bit ones included, itself. */
  static constexpr bool kUnscalesItself = true;
  /** The sum of all squared gradients, per element. */
  static constexpr std::array<StateSpec, 1> states{{{"sum"}}};

  /** Throws ValueError for an option out of range. */
  static void check(const Options& options) { AdagradRule::check(common(options), type_name); }
  /** Returns the options in the type that the formula takes. */
  static AdagradOptions common(const Options& o) {
    return {.lr = o.lr,
            .weight_decay = o.weight_decay,
            .eps = o.eps,
            .adagrad_w_mode = o.adagrad_w_mode};
  }
  /** Calls `visit` with the name of each option and a reference to it. The state dict has them. */
  template <class Visit> static void fields(Options& o, const Visit& visit) {
    visit("lr", o.lr);
    visit("eps", o.eps);
    visit("weight_decay", o.weight_decay);
    visit("adagrad_w_mode", o.adagrad_w_mode);
  }
};

extern template class MZ_API OptimizerOf<AdagradRule>;
extern template class MZ_API OptimizerOf<FusedAdagradRule>;

/** Adagrad. With g the gradient plus weight_decay * p, at a parameter's update t: h += g^2; p -= lr
 * / (1 + (t - 1) * lr_decay) * g / (sqrt(h) + eps); h starts at initial_accumulator_value.
 *  Precision: f32 arithmetic and state for f16, bf16, f32; f64 for f64; one rounding per step.
 *  Errors: ValueError unless all options are >= 0. Source: Duchi, Hazan, Singer, Adaptive
 *  subgradient methods, 2011; torch.optim.Adagrad (options and defaults). */
class MZ_API Adagrad final : public OptimizerOf<AdagradRule> {
 public:
  using OptimizerOf::OptimizerOf;
};

/** Adagrad with apex's options. With g the gradient plus weight_decay * p: h += g^2; p -= lr * g /
 * (sqrt(h) + eps). In W mode the decay does not enter h: p -= lr * (g / (sqrt(h) + eps) +
 * weight_decay * p). Precision: f32 arithmetic and state for f16, bf16, f32; f64 for f64; one
 * rounding per step. Errors: ValueError unless lr, eps, weight_decay >= 0. Source: Duchi, Hazan,
 * Singer, Adaptive subgradient methods, 2011; apex.optimizers.FusedAdagrad (options and defaults).
 */
class MZ_API FusedAdagrad final : public OptimizerOf<FusedAdagradRule> {
 public:
  using OptimizerOf::OptimizerOf;
};

}  // namespace mezzo::optim
