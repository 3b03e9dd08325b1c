// SGD and FusedSGD: stochastic gradient descent with momentum, dampening, Nesterov momentum and
// weight decay.
#pragma once

#include <array>

#include "optimizer_of.h"

namespace mezzo::optim {

struct SgdSettings;
struct SgdUpdate;

/** Options of SGD. */
struct SgdOptions {
  double lr = 1e-3;         // learning rate
  double momentum = 0;      // factor of the momentum buffer
  double dampening = 0;     // a new gradient enters the buffer with factor 1 - dampening
  double weight_decay = 0;  // L2: weight_decay * p is added to the gradient
  bool nesterov = false;    // Nesterov momentum
  bool maximize = false;    // go up the gradient instead of down
};

/** Options of FusedSGD. */
struct FusedSgdOptions {
  double lr = -1;                  // learning rate; required
  double momentum = 0;             // factor of the momentum buffer
  double dampening = 0;            // a new gradient enters the buffer with factor 1 - dampening
  double weight_decay = 0;         // factor of the parameter, see wd_after_momentum
  bool nesterov = false;           // Nesterov momentum
  bool wd_after_momentum = false;  // add the decay after momentum, outside of the buffer
  /** False: the update reads scaled 16-bit gradients, and masters have no gradients. */
  bool materialize_master_grads = true;
};

/** Common part of the rules of SGD and FusedSGD. */
template <class AnyOptions> struct SgdRuleBase {
  /** Options of one group. */
  using Options = AnyOptions;
  /** The formula of one element. */
  using Update = SgdUpdate;
  /** The momentum buffer. */
  static constexpr std::array<StateSpec, 1> states{{{"momentum_buffer"}}};

  /** Returns the bit of the momentum buffer, which is not needed without momentum. */
  static unsigned kept_states(const Options& options) { return options.momentum != 0 ? 1 : 0; }
  /** Calls `visit` with the name of each option and a reference to it. The state dict has them. */
  template <class Visit> static void fields(Options& o, const Visit& visit) {
    visit("lr", o.lr);
    visit("momentum", o.momentum);
    visit("dampening", o.dampening);
    visit("weight_decay", o.weight_decay);
    visit("nesterov", o.nesterov);
  }
};

/** The formula and the options of SGD, for OptimizerOf. */
struct MZ_API SgdRule : SgdRuleBase<SgdOptions> {
  /** Name of the optimizer's class. */
  static constexpr std::string_view type_name = "SGD";
  /** Throws ValueError for an option out of range. */
  static void check(const Options& options);
  /** Returns the settings of an update; `fresh` if the momentum buffer is new. */
  static SgdSettings settings(const Options& options, std::int64_t step, bool fresh);
  /** Calls `visit` with the name of each option and a reference to it. The state dict has them. */
  template <class Visit> static void fields(Options& o, const Visit& visit) {
    SgdRuleBase::fields(o, visit);
    visit_if_on("maximize", o.maximize, visit);
  }
};

/** The formula and the options of FusedSGD, for OptimizerOf. */
struct MZ_API FusedSgdRule : SgdRuleBase<FusedSgdOptions> {
  /** Name of the optimizer's class. */
  static constexpr std::string_view type_name = "FusedSGD";
  /** The update divides scaled gradients, 16-bit ones included, itself. */
  static constexpr bool kUnscalesItself = true;
  /** Throws ValueError for an option out of range. */
  static void check(const Options& options);
  /** Returns the settings of an update; `fresh` if the momentum buffer is new. */
  static SgdSettings settings(const Options& options, std::int64_t step, bool fresh);
  /** Calls `visit` with the name of each option and a reference to it. The state dict has them. */
  template <class Visit> static void fields(Options& o, const Visit& visit) {
    SgdRuleBase::fields(o, visit);
    visit("wd_after_momentum", o.wd_after_momentum);
    visit_if_off("materialize_master_grads", o.materialize_master_grads, visit);
  }
};

extern template class MZ_API OptimizerOf<SgdRule>;
extern template class MZ_API OptimizerOf<FusedSgdRule>;

/** Stochastic gradient descent. With g the gradient plus weight_decay * p: the buffer becomes g at
 *  a parameter's first update, then momentum * buffer + (1 - dampening) * g; p -= lr * buffer, with
 *  Nesterov lr * (g + momentum * buffer), without momentum lr * g. Precision: f32 arithmetic and
 *  state for f16, bf16, f32; f64 for f64; one rounding per step. Errors: ValueError for a negative
 *  lr, momentum or weight_decay, a non-finite option, Nesterov without momentum or with dampening.
 * Source: Sutskever et al., On the importance of initialization and momentum in deep learning,
 * 2013. */
class MZ_API SGD final : public OptimizerOf<SgdRule> {
 public:
  using OptimizerOf::OptimizerOf;
};

/** SGD with apex's options. Under a GradScaler it unscales gradients, 16-bit ones included, in the
 *  same pass as the update. Under a session with masters, materialize_master_grads = false saves
 *  the memory of the masters' gradients: the parameters' gradients stay scaled, and the update
 *  unscales them. The first group's option holds. Precision: as SGD. Errors: as SGD; ValueError if
 *  no learning rate is given. Source: apex.optimizers.FusedSGD (options and defaults). */
class MZ_API FusedSGD final : public OptimizerOf<FusedSgdRule> {
 public:
  using OptimizerOf::OptimizerOf;
  /** Returns materialize_master_grads of the first group. */
  bool materializes_master_grads() const override;
};

}  // namespace mezzo::optim
