// initialize and Session: one call puts models and optimizers under a level, the session that it returns keeps them there.
// Sees: properties.h, object_list.h, casting.h; nn, optim.
// Read next: policy.h (the levels), scale_loss.h (the other half of a training step), session.cpp.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "../nn/module.h"
#include "../tensor/log.h"
#include "casting.h"
#include "object_list.h"
#include "properties.h"
#include "scale_loss.h"
#include "scaler.h"

namespace mezzo::amp {

struct SessionCore;

using mezzo::set_log_sink;
using optim::StepResult;

using ModelList = ObjectList<const nn::Module>;

/** Scalers by name: "loss_scaler0" -> {"loss_scale", "unskipped"}. */
using StateDict = std::map<std::string, std::map<std::string, double>>;

/** Op casts of a session on a thread that did not create it, until the end of the scope. */
class MZ_API Activation {
 public:
  explicit Activation(std::shared_ptr<SessionCore> core);
  ~Activation();
  Activation(const Activation&) = delete;
  Activation& operator=(const Activation&) = delete;

 private:
  std::shared_ptr<SessionCore> core_;
};

/** Keeps models and optimizers under a level while it lives. Its end, or close(), leaves ordinary f32 models: 16-bit parameters become f32
 *  again, bitwise their masters, and return to their places in the optimizers. */
class MZ_API Session {
 public:
  Session(Session&& other) noexcept = default;
  /** Closes what this session was, as the destructor does. */
  Session& operator=(Session&& other) noexcept;
  /** Closes, even inside an open scope; an error there goes to the log. */
  ~Session();

  /** The scalers' values; gradients, stashes and skips are not in it: save between a step and the next scope. Empty when disabled. */
  StateDict state_dict() const;
  /** Takes scalers over by name. Other counts than num_losses are reported and passed over. Errors: ValueError for any other key, a missing field, or
   *  a value out of range; nothing has changed then. */
  void load_state_dict(const StateDict& saved);
  /** One of the num_losses scalers. Errors: IndexError. */
  LossScaler& loss_scaler(int loss_id = 0);
  const Properties& options() const;
  /** Switches this session's op casts on for the calling thread: `const auto on = session.activate();` */
  [[nodiscard]] Activation activate();
  CastCache& cast_cache();
  /** Level, overrides, every parameter and buffer with its dtype and why it was kept where it was, and what happens to the ops of each tag. */
  std::string explain() const;
  /** Throws what load_state_dict would, and changes nothing. */
  void check_state_dict(const StateDict& saved) const;
  /** The load, checked and prepared: the function that it returns makes it and needs no memory. */
  std::function<void()> stage_state_dict(const StateDict& saved) const;
  /** Errors: StateError inside an open scale_loss scope. Closing twice is fine. */
  void close();

  /** For checkpoints. Errors: StateError for a session that was moved from. */
  SessionCore& core() const;

 private:
  friend MZ_API Session initialize(const ModelList&, const OptimizerList&, const Options&);
  explicit Session(std::shared_ptr<SessionCore> core) : core_(std::move(core)) {}

  std::shared_ptr<SessionCore> core_;
};

/** Puts models and optimizers under a level of mixed precision (policy.h), in place: they keep their identity.
 *    auto session = amp::initialize(model, optimizer, {.opt_level = "O1"});
 *  Takes one model or {a, b}, one optimizer or {c, d}, or ranges of them; no optimizer for inference. Make the optimizers first, from the f32
 *  model; make schedules, wrappers and averages of weights afterwards.
 *  Errors: ValueError for options (the first that does not fit), for an object given twice, for a parallel wrapper; StateError for one that a live session holds;
 *  DtypeError naming a parameter or buffer that is 16-bit already. Nothing has changed then. */
[[nodiscard]] MZ_API Session initialize(const ModelList& models, const OptimizerList& optimizers,
                                        const Options& options = {});
[[nodiscard]] inline Session initialize(const ModelList& models, const Options& options = {}) {
  return initialize(models, OptimizerList{}, options);
}

/** Every parameter of every group in order, frozen ones included: the f32 master of a 16-bit parameter, else the parameter itself. What to
 *  clip, between the exit of scale_loss and the step. */
MZ_API std::vector<Tensor> master_params(optim::Optimizer& optimizer);

/** The optimizer's step without an answer and without waiting: whether the gradients of the scopes before it overflowed stays on the device, as do
 *  scale, counts and learning rate; the update leaves everything as it was where one did. For steps that are captured in a graph (gpu::Graph),
 *  and for loops that never wait: from the second step on the scopes wait for nobody either. The same bits as optimizer.step().
 *  Errors: as optimizer.step(); StateError for an optimizer of no session; DivergenceError comes within 100 steps, or with last_verdict(). */
MZ_API void step_deferred(optim::Optimizer& optimizer, const optim::StepOptions& options = {});
/** What the optimizer's latest step did. Waits for the device where that was deferred. Errors: DivergenceError. */
MZ_API StepResult last_verdict(optim::Optimizer& optimizer);

/** Those of this thread's most recently created live session. Errors: StateError where there is none. */
MZ_API StateDict state_dict();
MZ_API void load_state_dict(const StateDict& saved);

}  // namespace mezzo::amp
