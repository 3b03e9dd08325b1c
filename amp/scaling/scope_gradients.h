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
 *  `writes` as out, too; a gradient with gaps or repeated elements is replaced by a dense copy
 * then. `index` identifies the optimizer. Errors: StateError in the name of `op` for a gradient
 * that was not reduced over the processes that train together; DtypeError for an f16 one if
 * `writes`. */
std::vector<GradientSum> gradients_of(const optim::Optimizer& optimizer, std::size_t index,
                                      std::string_view op, bool writes);

/** What reduces gradients over several processes; empty in one process. */
using Receivers = std::vector<GradientReceiver*>;

/** Adds the receivers of an optimizer's parameters, each once. */
void add_receivers(const optim::Optimizer& optimizer, Receivers& receivers);

/** The gradients of one optimizer in a scope. */
class ScopeGradients {
 public:
  /** Adds the optimizer's parameters to `seen`. */
  static void mark_seen(optim::Optimizer& optimizer, Seen& seen);
  /** Stashes the gradients, except those of 16-bit parameters whose gradients are already
   *  accumulated in their masters, unless `keeps_low`. The masters must be up to date. Errors:
   *  StateError for a gradient that was not reduced over the processes that train together. */
  void prepare(optim::Optimizer& optimizer, Seen& seen, bool keeps_low);
  /** Removes the gradients that prepare() has listed. Allocates nothing. */
  void enter();
  /** Returns true if there are earlier gradients. */
  bool has_stash() const { return !stash_.empty(); }
  /** Appends the sums of new and earlier gradients to `sums`: in the masters, or in the parameters
   *  if `in_place`. `a` returns the factor of new gradients on a device, `b` is that of earlier
   *  ones in the parameters. `index` identifies the optimizer in a NonfiniteWord. Errors:
   *  StateError for a gradient that was not reduced over the processes that train together. */
  void collect(optim::Optimizer& optimizer, std::size_t index, bool in_place,
               const std::function<optim::Factor(Device)>& a, const optim::Factor& b, Seen& seen,
               std::vector<GradientSum>& sums);
  /** Sets the gradients of collect() and discards the stash. */
  void finish();
  /** Drops the new gradients and restores the stashed ones. */
  void roll_back(optim::Optimizer& optimizer, Seen& seen);
  /** Discards the result of collect(); gradients stay as they are. */
  void forget_results() { results_.clear(); }
  /** Discards the stash and all results. */
  void forget();

 private:
  void collect_in_place(const Tensor& param, std::uint32_t number,
                        const std::function<optim::Factor(Device)>& a, const optim::Factor& b,
                        std::vector<GradientSum>& sums);
  void collect_for_master(const optim::Slot& slot, std::uint32_t number,
                          const std::function<optim::Factor(Device)>& a,
                          std::vector<GradientSum>& sums);

  std::vector<Tensor> entered_;  // parameters whose gradients enter() removes
  // Gradients from before the scope, by parameter.
  std::unordered_map<const TensorImpl*, Tensor> stash_;
  // Parameters or masters with their new gradients.
  std::vector<std::pair<Tensor, Tensor>> results_;
};

}  // namespace mezzo::amp
