// SGD and FusedSGD: stochastic gradient descent with momentum, dampening, Nesterov momentum and
// weight decay.
#pragma once

#include <array>
#include <string_view>

#include "optimizer_of.h"

namespace mezzo::optim {

struct SgdUpdate;

/** Options of SGD, and with kFused of FusedSGD, which has no default of lr. */
template <bool kFused> struct SgdOptionsOf {
  double lr = kFused ? -1 : 1e-3;  // learning rate; required by FusedSGD
  double momentum = 0;             // factor of the momentum buffer
  double dampening = 0;            // a new gradient enters the buffer with factor 1 - dampening
  double weight_decay = 0;         // factor of the parameter, see wd_after_momentum
  bool nesterov = false;           // Nesterov momentum
  /** Add weight_decay * p after momentum, outside of the buffer. False: to the gradient, L2. */
  bool wd_after_momentum = false;
  bool maximize = false;  // go up the gradient instead of down
  /** Returns true if all options are the same. */
  bool operator==(const SgdOptionsOf&) const = default;
};
/** What SGD takes: the defaults of PyTorch. */
using SgdOptions = SgdOptionsOf<false>;
/** What FusedSGD takes: the defaults of apex. */
using FusedSgdOptions = SgdOptionsOf<true>;

/** The formula and the options of SGD or FusedSGD, for OptimizerOf. */
template <bool kFused> struct MZ_API SgdRuleOf {
  /** Options of one group. */
  using Options = SgdOptionsOf<kFused>;
  /** The formula of one element. */
  using Update = SgdUpdate;
  /** Name of the optimizer's class. */
  static constexpr std::string_view type_name = kFused ? "FusedSGD" : "SGD";
  /** The update divides scaled gradients, 16-bit ones included, itself. */
  static constexpr bool kUnscalesItself = kFused;
  /** The momentum buffer. */
  static constexpr std::array<StateSpec, 1> states{{{"momentum_buffer"}}};

  /** Returns the bit of the momentum buffer, which is not needed without momentum. */
  static unsigned kept_states(const Options& options) { return options.momentum != 0 ? 1 : 0; }
  /** Throws ValueError for an option out of range. */
  static void check(const Options& options);
  /** Calls `visit` with the name of each option, a reference to it, and whether the state dict has
   *  it: it lacks what only few programs set, as those of before the option existed do. */
  template <class AnyOptions, class Visit> static void fields(AnyOptions& o, const Visit& visit) {
    visit("lr", o.lr);
    visit("momentum", o.momentum);
    visit("dampening", o.dampening);
    visit("weight_decay", o.weight_decay);
    visit("nesterov", o.nesterov);
    visit("wd_after_momentum", o.wd_after_momentum, kFused || o.wd_after_momentum);
    visit("maximize", o.maximize, o.maximize);
  }
};

extern template class MZ_API OptimizerOf<SgdRuleOf<false>>;
extern template class MZ_API OptimizerOf<SgdRuleOf<true>>;

/** Stochastic gradient descent. With g the gradient plus weight_decay * p: the buffer becomes g at
 *  a parameter's first update, then momentum * buffer + (1 - dampening) * g; p -= lr * buffer, with
 *  Nesterov lr * (g + momentum * buffer), without momentum lr * g. Precision: f32 arithmetic and
 *  state for f16, bf16, f32; f64 for f64; one rounding per step. Errors: ValueError for a negative
 *  lr, momentum or weight_decay, a non-finite option, Nesterov without momentum or with dampening.
 * Source: Sutskever et al., On the importance of initialization and momentum in deep learning,
 * 2013. */
class MZ_API SGD final : public OptimizerOf<SgdRuleOf<false>> {
 public:
  using OptimizerOf::OptimizerOf;
};

/** SGD with the defaults of apex. Under a GradScaler it unscales gradients, 16-bit ones included,
 * in the same pass as the update. Precision: as SGD. Errors: as SGD; ValueError if no learning rate
 * is given. Source: apex.optimizers.FusedSGD (options and defaults). */
class MZ_API FusedSGD final : public OptimizerOf<SgdRuleOf<true>> {
 public:
  using OptimizerOf::OptimizerOf;
};

}  // namespace mezzo::optim
