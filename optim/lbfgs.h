// LBFGS: steps of a quasi-Newton method, which evaluates the loss several times.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "optimizer_of.h"

namespace mezzo::optim {

/** How LBFGS chooses the length of an iteration's step. */
enum class LineSearch : std::uint8_t {
  none,          // lr
  strong_wolfe,  // a length that satisfies the strong Wolfe conditions, tried from lr on
};

/** Options of LBFGS. */
struct LbfgsOptions {
  double lr = 1;  // length of a step without line search, and the first one tried with it
  std::int64_t max_iter = 20;                 // iterations in a step
  std::optional<std::int64_t> max_eval = {};  // evaluations in a step; unset: max_iter * 5 / 4
  double tolerance_grad = 1e-7;               // a step ends when no gradient is larger
  double tolerance_change = 1e-9;             // a step ends when parameters or loss change by less
  std::int64_t history_size = 100;            // changes of the gradient that are kept
  LineSearch line_search_fn = LineSearch::none;  // length of the steps
  bool maximize = false;                         // go up the gradient instead of down
};

/** L-BFGS, which finds minima of smooth losses of all data: step() calls a closure that computes
 *  the loss and its gradients.
 *  Precision: all parameters are one vector, in f32 for f16, bf16, f32, in f64 if one is f64; one
 *  rounding per iteration. Needs memory for 2 * history_size + 4 of these vectors. Takes one group
 *  of parameters, all on one device. amp::initialize(), GradScaler, LARC and captured steps refuse
 *  it: they need steps without a closure. Source: Nocedal and Wright, Numerical optimization, 2006,
 *  section 7.2; torch.optim.LBFGS (options, defaults, and when a step ends). */
class MZ_API LBFGS final : public Optimizer {
 public:
  /** Options of the group. */
  using Options = LbfgsOptions;

  /** Constructs from parameters. Errors: ValueError unless lr and the tolerances are >= 0, and
   *  max_iter, max_eval and history_size at least 1; those of the parameters, as
   *  OptimizerOf::add_param_group. */
  explicit LBFGS(const std::vector<Tensor>& params, const LbfgsOptions& options = {});
  /** Constructs with a learning rate; other options are the defaults. Errors: as above. */
  template <Number S>
  explicit LBFGS(const std::vector<Tensor>& params, S lr)
      : LBFGS(params, LbfgsOptions{.lr = static_cast<double>(lr)}) {}
  /** As above, from a list of one group. Errors: ValueError for another number of groups. */
  explicit LBFGS(const std::vector<ParamGroup<LbfgsOptions>>& groups);

  /** Takes up to max_iter iterations. `closure` is called several times: it removes the gradients
   *  (zero_grad), computes the loss, calls its backward() and returns it. Returns the loss of the
   *  first call, which is that of the parameters before the step. Waits for the device. If the
   *  closure throws, the parameters are those of the latest iteration. Errors: ValueError for an
   *  empty closure, or one that returns no number; StateError if it left no gradient, and in a
   *  captured step; ShapeError, DeviceError if a gradient does not match its parameter. */
  Tensor step(const std::function<Tensor()>& closure);

  /** Returns the options; max_eval is set. Use set_lr to change the learning rate. */
  const LbfgsOptions& options() const { return options_; }
  /** Returns "LBFGS". */
  std::string_view type_name() const override { return "LBFGS"; }
  /** Returns true: step() evaluates the loss by a closure. */
  bool takes_closure() const override { return true; }

  /** As Optimizer::state_dict, with the history: "<param>.old_dirs" and "<param>.old_stps"
   *  [history, elements] for the changes of gradient and parameter, "<param>.prev_grad" and
   *  "<param>.last_step" for the latest iteration. A loaded optimizer continues with the same bits
   *  if its parameters are in the same order. */
  StateDict state_dict(const Names& names = {}) const override;
  std::function<void()> stage(const StateDict& saved, const Names& names = {},
                              std::span<const std::pair<Tensor, Tensor>> incoming = {}) override;

 protected:
  double& group_lr(std::size_t) override { return options_.lr; }
  std::span<const StateSpec> states() const override { return {}; }
  unsigned kept_states(std::size_t) const override { return 0; }
  void update(std::span<const ParamUpdate> updates, const UpdateCall& call) override;
  std::pair<double, double> corrected_betas(std::size_t) const override { return {0, 0}; }
  void visit_options(std::size_t group, const OptionVisitor& visit, bool apply) override;

 private:
  /** The change of the gradient in an iteration, and that of the parameters. */
  struct Pair {
    Tensor of_grad, of_params;
    Tensor inverse;  // of their inner product
  };
  /** Results of earlier iterations. Vectors are those of all parameters, one after the other. */
  struct History {
    std::vector<Pair> pairs;      // from the oldest on
    Tensor scale;                 // of the first approximation; undefined: 1
    Tensor prev_grad, last_step;  // of the latest iteration; undefined before the first

    void add(const Tensor& of_grad, const Tensor& of_params, std::int64_t most);
  };
  /** The loss at some parameters. */
  struct Evaluation {
    Tensor loss;
    double value;  // of the loss; with `maximize` its negative
    Tensor grad;   // likewise
  };
  class HistoryLoad;

  Evaluation evaluate(const std::function<Tensor()>& closure) const;
  Tensor flat_gradient() const;
  void iterate(Evaluation now, const std::function<Tensor()>& closure);
  Tensor direction(const Tensor& grad);
  Evaluation search(const std::function<Tensor()>& closure, const Evaluation& from,
                    const Tensor& direction, double slope, double& length,
                    std::int64_t& evaluations) const;
  void move(const Tensor& direction, double length) const;
  DType dtype() const;
  std::int64_t numel() const;

  LbfgsOptions options_;
  History history_;
};

}  // namespace mezzo::optim
