// The gradients of an optimizer as lists for kernels; and ScopeGradients, which sets earlier ones
// aside in a scope around a backward pass and adds them again at its end.
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

namespace mezzo::amp {

/** Parameters that a scope has processed. A parameter of several optimizers is processed once. */
using Seen = std::unordered_set<const TensorImpl*>;

/** The sum of a new gradient x and an earlier one y: out = a x + b y. */
struct GradientSum {
  optim::AxpbyTensors tensors;
  optim::Factor a = 1, b = 1;
  bool fresh = true;  // x is a new gradient, to be checked for infinities and NaNs
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
  /** Returns true if a parameter of the optimizer has an earlier gradient. */
  bool has_stash(const optim::Optimizer& optimizer) const;
  /** Leaves the new gradients scaled, for a later scope to add to. */
  void delay(optim::Optimizer& optimizer, Seen& seen);
  /** Appends the sums of new and earlier gradients to `sums`: in the masters, or in the parameters
   *  if `stays_scaled`. `a` returns the factor of new gradients on a device, `b` is that of earlier
   *  ones in the parameters. `index` identifies the optimizer in a NonfiniteWord. Errors:
   *  StateError for a gradient that was not reduced over the processes that train together. */
  void collect(optim::Optimizer& optimizer, std::size_t index, bool stays_scaled,
               const std::function<optim::Factor(Device)>& a, const optim::Factor& b, Seen& seen,
               std::vector<GradientSum>& sums);
  /** Sets the gradients of collect() and discards the stash. */
  void finish(optim::Optimizer& optimizer);
  /** Drops the new gradients and restores the stashed ones. */
  void roll_back(optim::Optimizer& optimizer, Seen& seen);
  /** Discards the stash of the optimizer's parameters and all results. */
  void forget(optim::Optimizer& optimizer);

 private:
  void collect_in_place(const Tensor& param, std::uint32_t number, GradientScale scale,
                        const std::function<optim::Factor(Device)>& a, const optim::Factor& b,
                        std::vector<GradientSum>& sums);
  void collect_for_master(const optim::Slot& slot, std::uint32_t number,
                          const std::function<optim::Factor(Device)>& a,
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
