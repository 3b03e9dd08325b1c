// The gradients of an optimizer under mixed precision: their division by the loss scale, the check
// for non-finite ones, the agreement of processes that train copies of one model; and
// ScopeGradients, which sets earlier ones aside in a scope around a backward pass and adds them
// again at its end.
//
// See also: scale_loss.h (the scope).
#pragma once

#include <functional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "../../autograd/gradient_mark.h"
#include "../../autograd/gradient_receiver.h"
#include "../../optim/optimizer.h"
#include "scale.h"

namespace mezzo::amp {

/** Parameters that a scope has processed. A parameter of several optimizers is processed once. */
using Seen = std::unordered_set<const TensorImpl*>;

/** The sum of a new gradient x times a factor and an earlier one y: out = a x + y. */
struct GradientSum {
  optim::AxpbyTensors tensors;
  optim::Factor a = 1;
};

/** Returns the gradients of an optimizer's parameters as x, numbered for a NonfiniteWord. With
 *  `writes`, those that are not unscaled yet are also `out`, and y is the part that is; a gradient
 *  with gaps or repeated elements is replaced by a dense copy then. One that is another parameter's
 *  too is replaced by a copy. `index` identifies the optimizer. Errors: StateError in the name of
 *  `op` for a gradient that was not reduced over the processes that train together, or that a
 *  session left scaled; DtypeError for an f16 one that is `out`. */
std::vector<GradientSum> gradients_of(const optim::Optimizer& optimizer, std::size_t index,
                                      std::string_view op, bool writes);

/** What reduces gradients over several processes; empty in one process. */
using Receivers = std::vector<GradientReceiver*>;

/** Adds the receivers of an optimizer's parameters, each once. */
void add_receivers(const optim::Optimizer& optimizer, Receivers& receivers);

/** Moves a flag to the memory of a device, and returns it. An undefined one becomes a reset one. */
const optim::FoundInf& move_to(Device device, optim::FoundInf& found_inf);

/** Computes the sums, with one pass for all that share device and factors; without `out` only
 *  checks x. Raises `found_inf`, whose flag may be undefined, for new non-finite gradients. Waits
 * for devices other than that of the flag. */
void unscale(std::vector<GradientSum> sums, const optim::FoundInf& found_inf);

/** Raises `found_inf` if another process that shares gradients raised its own, so that all take or
 * skip the step. Returns true if this or another process has gradients. Call it in all processes
 * once the flag is complete, before a step or the scale depends on it. Does nothing without
 * receivers. One message of 48 bytes; waits for a flag on a device. Errors: CommError if the
 * processes have different loss scales. */
bool agree(const Receivers& receivers, LossScaler& scaler, const optim::FoundInf& found_inf,
           bool has_gradients = true);

// ---- scopes -------------------------------------------------------------------------------------

/** A gradient from before a scope, with its mark. */
struct EarlierGradient {
  Tensor param, grad;
  GradientMark mark;
};
/** The earlier gradients of a session's parameters: those of the optimizers in open scopes, and
 *  those below gradients that scopes with delay_unscale left scaled. */
using Stash = std::unordered_map<const TensorImpl*, EarlierGradient>;

/** The gradients of one optimizer in a scope. Those that a scope with delay_unscale left scaled
 *  (GradientScale::delayed) stay in the parameters; a later scope adds to them. */
class ScopeGradients {
 public:
  explicit ScopeGradients(Stash* stash) : stash_(stash) {}

  /** Stashes the gradients. Masters' gradients must be up to date. Errors: StateError for a
   *  gradient that was not reduced over the processes that train together. */
  void prepare(optim::Optimizer& optimizer, Seen& seen);
  /** Removes the gradients that prepare() has listed. Allocates nothing. */
  void enter();
  /** Leaves the new gradients scaled, for a later scope to add to. */
  void delay(optim::Optimizer& optimizer, Seen& seen);
  /** Appends the sums of new gradients, divided by `scale`, and earlier ones to `sums`, in the
   *  masters where there are some. `index` identifies the optimizer in a NonfiniteWord. Errors:
   *  StateError for a gradient that was not reduced over the processes that train together. */
  void collect(optim::Optimizer& optimizer, std::size_t index, const ScaleValue& scale, Seen& seen,
               std::vector<GradientSum>& sums);
  /** Sets the gradients of collect() and discards the stash. */
  void finish(optim::Optimizer& optimizer);
  /** Drops the new gradients and restores the stashed ones. */
  void roll_back(optim::Optimizer& optimizer, Seen& seen);
  /** Discards the stash of the optimizer's parameters and all results. */
  void forget(optim::Optimizer& optimizer);

 private:
  void collect_in_place(const Tensor& param, std::uint32_t number, const ScaleValue& scale,
                        std::vector<GradientSum>& sums);
  void collect_for_master(const optim::Slot& slot, std::uint32_t number, const ScaleValue& scale,
                          std::vector<GradientSum>& sums);
  EarlierGradient stashed(const Tensor& param) const;

  /** A parameter or master with its new gradient, and how that is to be marked. */
  struct Result {
    Tensor tensor, grad;
    GradientScale scale;
  };

  Stash* stash_;                            // of the session
  std::vector<Tensor> entered_ = {};        // parameters whose gradients enter() removes
  std::vector<Result> results_ = {};        // of collect()
  std::vector<EarlierGradient> kept_ = {};  // set again by finish(): the scope has added nothing
};

}  // namespace mezzo::amp
