// initialize and Session: one call sets models and optimizers up for a level of mixed precision,
// and the session it returns owns that state.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "../nn/module.h"
#include "../tensor/core/state_dict.h"
#include "../tensor/text/log.h"
#include "autocast/casting.h"
#include "object_list.h"
#include "options.h"
#include "scaling/scale.h"
#include "scaling/scale_loss.h"

namespace mezzo::amp {

struct SessionCore;

using mezzo::set_log_sink;
using optim::StepResult;

/** One or several models. */
using ModelList = ObjectList<const nn::Module>;

/** State of the loss scalers in the form of apex's amp.state_dict(): "loss_scaler0" ->
 *  {"loss_scale", "unskipped"}. In a mezzo::StateDict they are the numbers
 *  "loss_scaler0.loss_scale" and "loss_scaler0.unskipped". */
using StateDict = std::map<std::string, std::map<std::string, double>>;

/** Activates a session's op casts on the calling thread until the end of the scope. Threads other
 *  than the one that called initialize need it. */
class MZ_API Activation {
 public:
  /** Opens the scope; called by Session::activate(). */
  explicit Activation(std::shared_ptr<SessionCore> core);
  ~Activation();
  Activation(const Activation&) = delete;
  Activation& operator=(const Activation&) = delete;

 private:
  std::shared_ptr<SessionCore> core_;
};

/** Mixed precision of the models and optimizers given to initialize. The destructor, or close(),
 *  restores ordinary f32 models: 16-bit parameters become f32 again, with the exact values of
 *  their masters, or from before the session; gradients that delay_unscale left scaled are
 *  unscaled; and the optimizers update the parameters directly. */
class MZ_API Session {
 public:
  /** Takes over the state of `other`, whose destructor then does nothing. */
  Session(Session&& other) noexcept = default;
  /** Closes this session as the destructor does, then takes the other one over. */
  Session& operator=(Session&& other) noexcept;
  /** Closes the session, even inside an open scope; errors are logged. */
  ~Session();

  /** Returns the values of the loss scalers; empty when disabled. Gradients, stashes and skips
   *  are not included, so save between a step and the next scope. */
  StateDict state_dict() const;
  /** Restores loss scalers by name. A number of entries other than num_losses is logged, and
   *  surplus entries are ignored. Errors: ValueError for any other key, a missing field, or a
   *  value out of range; nothing has changed then. */
  void load_state_dict(const StateDict& saved);
  /** Returns one of the num_losses scalers. Errors: IndexError. */
  LossScaler& loss_scaler(int loss_id = 0);
  /** Returns what the session runs with: the result of resolve(). */
  const Options& options() const;
  /** Activates this session's op casts on the calling thread: `const auto on =
   *  session.activate();` */
  [[nodiscard]] Activation activate();
  /** Returns the session's cache of cast weights. */
  CastCache& cast_cache();
  /** Returns a text with level, overrides, every parameter and buffer with its dtype and the
   *  reason if it was kept, and what happens to the ops of each tag. */
  std::string explain() const;
  /** Throws what load_state_dict would throw, and changes nothing. */
  void check_state_dict(const StateDict& saved) const;
  /** Checks a state as load_state_dict() does. Returns the load, which does not allocate. */
  std::function<void()> stage(const mezzo::StateDict& saved) const;
  /** Ends the session. Closing again does nothing. Errors: StateError inside an open scale_loss
   *  scope. */
  void close();

  /** Returns the state shared with models and optimizers; used by checkpoints. Errors: StateError
   *  for a session that was moved from. */
  SessionCore& core() const;

 private:
  friend MZ_API Session initialize(const ModelList&, const OptimizerList&, const Options&);
  explicit Session(std::shared_ptr<SessionCore> core) : core_(std::move(core)) {}

  std::shared_ptr<SessionCore> core_;
};

/** Sets models and optimizers up for a level of mixed precision (policy.h), in place: they keep
 *  their identity.
 *    auto session = amp::initialize(model, optimizer, {.opt_level = "O1"});
 *  With master weights, weights and buffers without a master keep their f32 values (4 bytes for
 *  each number). A warning names those that the 16-bit type cannot hold.
 *  Takes one model or {a, b}, one optimizer or {c, d}, or ranges of them; no optimizer for
 *  inference. Create optimizers before the call, from the f32 model; create schedules, wrappers
 *  and weight averages after it. Errors: ValueError for the first invalid option, an object given
 *  twice, a parallel wrapper, or an optimizer of another model while one of these has no optimizer;
 *  StateError for an object that a live session holds, a weight of an optimizer of another session,
 *  or a parameter that add() or replace() brought into a model after its optimizer was made;
 *  DtypeError naming a parameter or buffer that is 16-bit already. Nothing has changed then. */
[[nodiscard]] MZ_API Session initialize(const ModelList& models, const OptimizerList& optimizers,
                                        const Options& options = {});
/** Sets up models without an optimizer. */
[[nodiscard]] inline Session initialize(const ModelList& models, const Options& options = {}) {
  return initialize(models, OptimizerList{}, options);
}

/** Returns every parameter of every group in order, frozen ones included: the f32 master of a
 *  16-bit parameter, else the parameter itself. Clip these, between the exit of scale_loss and
 *  the step. */
MZ_API std::vector<Tensor> master_params(optim::Optimizer& optimizer);

/** Returns the state of this thread's most recently created live session. Errors: StateError if
 *  there is none. */
MZ_API StateDict state_dict();
/** Restores the state of that session. Errors: as Session::load_state_dict; StateError. */
MZ_API void load_state_dict(const StateDict& saved);

}  // namespace mezzo::amp
