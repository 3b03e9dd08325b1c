// The gradients of an optimizer under mixed precision: their division by the loss scale, the check
// for non-finite ones, the agreement of processes that train copies of one model; and
// AmpOptimizerState, the state of one optimizer in scopes and between scopes and steps.
//
// See also: scale_loss.h (the scope).
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../../autograd/gradient_mark.h"
#include "../../autograd/gradient_receiver.h"
#include "../../autograd/hooks.h"
#include "../../optim/optimizer.h"
#include "../../optim/step/step_state.h"
#include "../diagnose/gradient_watch.h"
#include "scale.h"

namespace mezzo::optim {
class LateGradient;
}  // namespace mezzo::optim

namespace mezzo::amp {

class AmpOptimizerState;
struct SessionCore;

using optim::AxpbyTensors;

/** Returns the gradient itself if it can be written in place, otherwise a dense copy. */
Tensor dense(const Tensor& grad);

/** Returns the gradients of an optimizer's parameters as x, numbered for a NonfiniteWord. With
 *  `writes`, those that are not unscaled yet are also `out`, and y is the part that is; a gradient
 *  with gaps or repeated elements is replaced by a dense copy then. One that is another parameter's
 *  too is replaced by a copy. `index` identifies the optimizer. Errors: StateError in the name of
 *  `op` for a gradient that was not reduced over the processes that train together, or that a
 *  session left scaled; DtypeError for an f16 one that is `out`. */
std::vector<AxpbyTensors> gradients_of(const optim::Optimizer& optimizer, std::size_t index,
                                       std::string_view op, bool writes);

/** What reduces gradients over several processes; empty in one process. */
using Receivers = std::vector<GradientReceiver*>;

/** Returns the receivers of the optimizers' parameters, each once. */
Receivers receivers_of(std::span<const std::shared_ptr<AmpOptimizerState>> states);

/** Moves a flag to the memory of a device, and returns it. An undefined one becomes a reset one. */
const optim::FoundInf& move_to(Device device, optim::FoundInf& found_inf);

/** Computes out = x * factor / scale + y, x being a new gradient and y an earlier one, with one
 * pass for all that share device and factor; of items without `out` only checks x. Raises
 * `found_inf`, whose flag may be undefined, for new non-finite gradients. Waits for devices other
 * than that of the flag. */
void unscale(std::vector<AxpbyTensors> items, const optim::FoundInf& found_inf,
             const ScaleValue& scale = {});

/** Raises `found_inf` if another process that shares gradients raised its own, so that all take or
 * skip the step. Returns true if this or another process has gradients. Call it in all processes
 * once the flag is complete, before a step or the scale depends on it. Does nothing without
 * receivers. One message of 48 bytes; waits for a flag on a device. Errors: CommError if the
 * processes have different loss scales. */
bool agree(const Receivers& receivers, LossScaler& scaler, const optim::FoundInf& found_inf,
           bool has_gradients = true);

// ---- scopes -------------------------------------------------------------------------------------

/** A gradient that a scope has set aside, or that it sets at its end. */
struct ScopeGradient {
  Tensor leaf, grad;
  GradientMark mark;
  std::shared_ptr<optim::LateGradient> late = {};  // writes `grad`; null: it is written
};
/** The earlier gradients of a session's parameters: those of the optimizers in open scopes, and
 *  those below gradients that scopes with delay_unscale left scaled. */
using Stash = std::unordered_map<const TensorImpl*, ScopeGradient>;

// ---- optimizers ---------------------------------------------------------------------------------

/** The backward passes in a scope, which owns it, or in an iteration of a GradScaler. */
struct ScaledPasses {
  const SessionCore* core = nullptr;         // of the scope; null: of a GradScaler
  std::atomic<int> scaled = 0;               // from scaled losses; starts at 1 where any will do
  std::uint64_t before = backward_passes();  // of the process

  /** Returns true if backward() ran, but never from a scaled loss. */
  bool missed() const { return scaled == 0 && backward_passes() != before; }
};

/** Returns x as a tensor of its own in the graph, with the same memory. A backward pass through it
 *  counts and passes the gradient on as it is. After the end of a scope it throws StateError: the
 *  pass is too late. Returns x if it requires no gradient. */
Tensor watched(const Tensor& x, const std::shared_ptr<ScaledPasses>& passes);

/** Checks from here on that gradients which this thread clips are unscaled, as long as `passes`
 *  exists. */
void watch_clipping(const std::shared_ptr<ScaledPasses>& passes);

/** Throws for a call at a wrong point of the iteration. Errors: StateError. */
[[noreturn]] void refuse(std::string_view op, std::string what, std::string hint = {});

/** The mixed-precision state of one optimizer. Its gradients are unscaled, which raises the flag
 *  for a non-finite one; the step is taken, or skipped if the flag is raised; then the flag is
 *  reset. */
class MZ_API AmpOptimizerState final : public optim::OptimizerHooks,
                                       public std::enable_shared_from_this<AmpOptimizerState> {
 public:
  /** Adds the optimizer to those of a scaler, which is null in a disabled session. `session` is
   *  null in a GradScaler. */
  AmpOptimizerState(std::shared_ptr<SessionCore> session, LossScaler* scaler,
                    optim::Optimizer& optimizer);

  /** Returns the state of an optimizer; null if it is attached to no session. */
  static std::shared_ptr<AmpOptimizerState> of(optim::Optimizer& optimizer);

  /** Returns the optimizer; null after it was destroyed or detached. */
  optim::Optimizer* optimizer() const { return step_state ? step_state->owner() : nullptr; }
  /** Returns true between GradScaler's unscale_() or step() and update(). */
  bool in_use() const { return unscaled || stepped; }

  const std::shared_ptr<SessionCore> core;  // null in a GradScaler
  /** Counters and results of the optimizer; null after it was detached. */
  std::shared_ptr<optim::StepState> step_state;
  std::size_t index = 0;           // in LossScaler::optimizers
  std::string name;                // in messages
  LossScaler* scaler;              // of the latest step
  optim::FoundInf found_inf = {};  // raised: the next step must be skipped
  bool unscaled = false;       // gradients were, since the last step; in GradScaler since update()
  bool stepped = false;        // GradScaler's: step() was called since update()
  bool had_gradients = false;  // GradScaler's: since update() a step has found some
  int reached = 0;  // GradScaler's: the backward passes from scaled losses before it unscaled
  /** GradScaler's: of the last fused step, if it is not known whether that has unscaled
   *  gradients. */
  std::optional<optim::StepResult> fused_result = {};

  std::int64_t steps = 0;  // under a session: begun so far
  bool scoped = false;     // a scope has ended since the gradients were removed
  // Whether all losses on the CPU since the latest step are finite; nothing: there was none.
  std::optional<bool> finite_losses;

  // ---- for scopes -------------------------------------------------------------------------------
  std::optional<ScaleValue> pending;  // of gradients that a scope with delay_unscale left scaled
  bool in_scope = false;              // a scope over the optimizer is open
  std::exception_ptr stored_error;    // from the end of a scope; the next step rethrows it
  /** Of the loss whose overflow may have raised the flag `found_inf`: the next step depends on it.
   */
  LossScaler* raised_by = nullptr;

  /** Returns true if the optimizer has this parameter or master. */
  bool holds(const Tensor& leaf) const;
  /** Throws if an optimizer of another session holds one of the parameters. `name_of` returns the
   *  name of a parameter, or nothing. Errors: StateError that names the parameter. */
  static void require_own(std::string_view op, const SessionCore* core,
                          std::span<const optim::Slot> slots,
                          const std::function<std::string(const Tensor&)>& name_of);

  /** Returns a text such as "loss 0 times 65536" about the pending gradients. */
  std::string pending_text() const;
  /** Forgets `pending` if the program has removed all gradients that were left scaled. */
  void refresh_pending();
  /** Discards the earlier gradients of the optimizer's parameters. */
  void forget_earlier();
  /** Throws unless the gradients have been unscaled, those of parameters that other optimizers of
   *  the session share too. Errors: StateError. */
  void require_unscaled(std::string_view op);
  /** Throws if the session scales losses and the parameters have gradients from a backward pass
   *  outside scale_loss only: they may have lost small values in 16 bits. Errors: StateError. */
  void require_scoped(std::string_view op);
  /** Throws if gradients, an error or a skip are pending for a step. Waits for the device. Errors:
   *  StateError that says how to finish the iteration. */
  void require_stepped(std::string_view op);
  // ---- optim::OptimizerHooks --------------------------------------------------------------------
  /** Refuses gradients that are still scaled, sets the flag, and brings masters up to date. */
  std::optional<optim::StepResult> before_step(optim::Optimizer& optimizer,
                                               optim::FoundInf& of_step) override;
  Tensor low_copy(const Tensor& param) override;
  /** Lets the update complete the check that the step has waited for, and reset the flag. */
  void before_end(optim::StepEnd& end) override;
  /** Completes the check and resets the flag, unless the update has. */
  void after_step(optim::Optimizer& optimizer, const optim::StepResult& result) override;
  void after_zero_grad(optim::Optimizer& optimizer) override;
  /** Makes masters of new parameters, which belong to the session then; refuses those of others. */
  void before_add(optim::Optimizer& optimizer, std::span<optim::Slot> slots) override;
  void before_replay(optim::Optimizer& optimizer) override;
  void capture_abandoned(optim::Optimizer& optimizer) noexcept override;
  void after_replay(optim::Optimizer& optimizer) override;
  void detached(optim::Optimizer& optimizer) noexcept override;
  void skips_found(optim::Optimizer& optimizer, std::int64_t skips,
                   std::int64_t diverged_after) override;

 private:
  /** Clears the record of gradients pending for a step. */
  void forget_gradients();
  /** Looks for non-finite gradients now and then, where a session does not check every step. */
  void watch_gradients(std::optional<bool> finite_losses);

  std::vector<Tensor> lent_;  // parameters whose casts the running step writes
  optim::StepEnd end_;        // what the update of the running step does
  GradientWatch watch_;
};

}  // namespace mezzo::amp
