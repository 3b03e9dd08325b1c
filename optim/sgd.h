// SGD and FusedSGD: stochastic gradient descent with momentum, dampening, Nesterov's variant and weight decay.
// Sees: optimizer_of.h.
// Read next: updates/sgd.h (the formula).
#pragma once

#include <array>

#include "optimizer_of.h"

namespace mezzo::optim {

struct SgdOptions {
  double lr = 1e-3;
  double momentum = 0;      // factor of the running direction
  double dampening = 0;     // share of the gradient that does not enter it
  double weight_decay = 0;  // L2: this times the weight joins the gradient
  bool nesterov = false;    // looks one step ahead along the running direction
};

struct FusedSgdOptions {
  double lr = -1;  // required
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool wd_after_momentum = false;  // the decay joins after momentum, so that the buffer never sees it
  bool materialize_master_grads =
      true;  // false: scaled 16-bit gradients are read as they are, masters never get gradients
};

/** What SGD and FusedSGD share; they differ in options. */
template <class AnyOptions> struct SgdRuleBase {
  using Options = AnyOptions;
  using Update = SgdUpdate;
  static constexpr std::array<StateSpec, 1> states{{{"momentum_buffer"}}};

  static bool keeps_state(const Options& options) { return options.momentum != 0; }
  template <class Visit> static void fields(Options& o, const Visit& visit) {
    visit("lr", o.lr);
    visit("momentum", o.momentum);
    visit("dampening", o.dampening);
    visit("weight_decay", o.weight_decay);
    visit("nesterov", o.nesterov);
  }
};

struct MZ_API SgdRule : SgdRuleBase<SgdOptions> {
  static constexpr std::string_view type_name = "SGD";
  static void check(const Options& options);
  static SgdSettings settings(const Options& options, std::int64_t step, bool fresh);
};

struct MZ_API FusedSgdRule : SgdRuleBase<FusedSgdOptions> {
  static constexpr std::string_view type_name = "FusedSGD";
  static constexpr bool kUnscalesItself = true;
  static void check(const Options& options);
  static SgdSettings settings(const Options& options, std::int64_t step, bool fresh);
  template <class Visit> static void fields(Options& o, const Visit& visit) {
    SgdRuleBase::fields(o, visit);
    visit("wd_after_momentum", o.wd_after_momentum);
  }
};

extern template class MZ_API OptimizerOf<SgdRule>;
extern template class MZ_API OptimizerOf<FusedSgdRule>;

/** Per step, with g the gradient plus weight_decay * p: the buffer becomes g at a parameter's first update, then
 *  momentum * buffer + (1 - dampening) * g; p -= lr * buffer, under Nesterov lr * (g + momentum * buffer), without momentum lr * g.
 *  Precision: f32 arithmetic and state for f16, bf16, f32; f64 for f64; one rounding per step.
 *  Errors: ValueError for a negative option, for Nesterov without momentum or with dampening.
 *  Source: Sutskever et al., On the importance of initialization and momentum in deep learning, 2013. */
class MZ_API SGD final : public OptimizerOf<SgdRule> {
 public:
  using OptimizerOf::OptimizerOf;
};

/** SGD with apex's options; under a GradScaler it unscales in the pass that updates, 16-bit gradients too.
 *  Under a session with masters, materialize_master_grads = false saves the masters' gradients: those of the parameters stay scaled, and the
 *  update divides them. Decided by the first group.
 *  Precision: as SGD. Errors: as SGD; ValueError where no learning rate is given. Source: apex.optimizers.FusedSGD (options and defaults). */
class MZ_API FusedSGD final : public OptimizerOf<FusedSgdRule> {
 public:
  using OptimizerOf::OptimizerOf;
  bool materializes_master_grads() const override;
};

}  // namespace mezzo::optim
