// SessionCore: the state that the models, optimizers and scopes of one session share. Users reach
// it through Session.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "../nn/module.h"
#include "autocast/casting.h"
#include "object_list.h"
#include "options.h"
#include "scaling/gradients.h"
#include "scaling/scale.h"
#include "weights/master.h"

namespace mezzo::amp {

class AmpOptimizerState;
class Session;

/** State of one session. */
struct MZ_API SessionCore final : CastingSession, nn::AttachedSession {
  Options options;
  std::vector<std::shared_ptr<LossScaler>> scalers;
  std::vector<nn::Module> models;
  std::vector<nn::Module> modules;  // the models and all their submodules when attached
  std::vector<Tensor> lowered;      // parameters and buffers that this session made 16-bit
  std::vector<AmpOptimizerState*> optimizers;  // currently attached
  Masters masters;
  mutable Stash stash;
  int open_scopes = 0;
  int open_loss = 0;  // the loss of the innermost open scope; stays after the scope
  bool told_about_low_gradients = false;

  /** Returns the session whose casts are on in this thread. Errors: StateError if there is none. */
  static std::shared_ptr<SessionCore> current(std::string_view op);
  bool enabled() const { return options.enabled; }
  std::string description() const override;
  bool has_masters() const override { return options.masters(); }
  bool checks_gradients() const override {
    return options.dynamic() || options.check_static_overflow;
  }
  void gradients_removed(std::span<const Tensor> params) const override;
  /** Returns true if losses are multiplied by a scale: by a dynamic one, or one other than 1. */
  bool scales_losses() const { return options.scale() != 1; }
  // ---- iterations: a checkpoint holds no gradients and no pending skips -------------------------
  /** Throws inside a scale_loss scope. Errors: StateError. */
  void require_no_scope(std::string_view op) const;
  /** Throws if an optimizer that is not among `own` has gradients, left scaled by a scope with
   *  delay_unscale, of a parameter of one of these. Errors: StateError. */
  void require_no_other_pending(std::string_view op,
                                std::span<const std::shared_ptr<AmpOptimizerState>> own) const;
  /** Throws if an iteration is unfinished. Gradients that a step has used do not count. Errors:
   *  StateError that says what is unfinished and how to finish it. */
  void require_between_iterations(std::string_view op) const;
  /** Unscales what delay_unscale left scaled, when the session ends. Drops all gradients of an
   *  optimizer instead if one is non-finite, if the next step would be skipped, or if a step would
   *  unscale them. Waits for the device. */
  void finish_gradients();
  /** Drops all gradients and all state that is pending for a step. No scope may be open. */
  void forget_iteration();

  /** Logs text at verbosity 1 and above. */
  void print(std::string_view text) const;
  /** Returns the dotted name of a parameter in the session's models; empty if it is in none. */
  std::string name_of(const Tensor& param) const;
};

/** What errors about the objects and options of a session name. */
inline constexpr std::string_view kInitialize = "amp::initialize";

/** Describes what a session decided: its level and overrides, every parameter and buffer with its
 *  dtype, and what happens to the ops of each tag. */
std::string explain(SessionCore& core);

/** Throws unless each of these optimizers and models that belongs to a session belongs to one of
 *  `sessions`, which are open. Errors: ValueError; StateError for a closed session. */
void require_sessions(std::string_view op, const Parts<Session>& sessions,
                      const Parts<optim::Optimizer>& optimizers,
                      const Parts<const nn::Module>& models);

}  // namespace mezzo::amp
