// Adadelta: steps scaled by running means of squares of the gradient and of the changes.
#pragma once

#include <array>

#include "optimizer_of.h"

namespace mezzo::optim {

struct AdadeltaUpdate;

/** Options of Adadelta. */
struct AdadeltaOptions {
  double lr = 1;            // factor of the change
  double rho = 0.9;         // decay rate of the running means
  double eps = 1e-6;        // added to both means of squares
  double weight_decay = 0;  // L2: weight_decay * p is added to the gradient
  bool maximize = false;    // go up the gradient instead of down
  /** Returns true if all options are the same. */
  bool operator==(const AdadeltaOptions&) const = default;
};

/** The formula and the options of Adadelta, for OptimizerOf. */
struct MZ_API AdadeltaRule {
  /** Options of one group. */
  using Options = AdadeltaOptions;
  /** The formula of one element. */
  using Update = AdadeltaUpdate;
  /** Name of the optimizer's class. */
  static constexpr std::string_view type_name = "Adadelta";
  /** Running means of squares of the gradient and of the changes. */
  static constexpr std::array<StateSpec, 2> states{{{"square_avg"}, {"acc_delta"}}};
  /** Throws ValueError for an option out of range. */
  static void check(const Options& options);
  /** Calls `visit` with the name of each option and a reference to it. The state dict has them. */
  template <class Visit> static void fields(Options& o, const Visit& visit) {
    visit("lr", o.lr);
    visit("rho", o.rho);
    visit("eps", o.eps);
    visit("weight_decay", o.weight_decay);
    visit("maximize", o.maximize, o.maximize);
  }
};

extern template class MZ_API OptimizerOf<AdadeltaRule>;

/** Adadelta. With g the gradient plus weight_decay * p: s = rho * s + (1 - rho) * g^2; d = sqrt(a +
 *  eps) / sqrt(s + eps) * g; a = rho * a + (1 - rho) * d^2; p -= lr * d.
 *  Precision: f32 arithmetic and state for f16, bf16, f32; f64 for f64; one rounding per step.
 *  Errors: ValueError unless lr, eps, weight_decay >= 0 and rho in [0, 1). Source: Zeiler,
 *  ADADELTA: an adaptive learning rate method, 2012; torch.optim.Adadelta (options, defaults). */
class MZ_API Adadelta final : public OptimizerOf<AdadeltaRule> {
 public:
  using OptimizerOf::OptimizerOf;
};

}  // namespace mezzo::optim
