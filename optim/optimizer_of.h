// OptimizerOf<Rule>: an optimizer built from a rule, which provides the formula, and the options by
// name with their checks.
#pragma once

#include "../tensor/core/pointers.h"
#include "optimizer.h"

namespace mezzo::optim {

/** Parameters with common options. */
template <class Options> struct ParamGroup {
  std::vector<Tensor> params;  // floating-point leaves; each in one group only
  Options options = {};        // of all of them
};

/** Visits the options that all optimizers with two running means have. */
template <class Options, class Visit> void visit_adaptive_options(Options& o, const Visit& visit) {
  visit("lr", o.lr);
  visit("beta1", o.betas.first);
  visit("beta2", o.betas.second);
  visit("eps", o.eps);
  visit("weight_decay", o.weight_decay);
}

/** The implementation of a concrete optimizer. Rule is a struct such as AdagradRule. */
template <class Rule> class OptimizerOf : public Optimizer {
 public:
  /** Options of one group, such as SgdOptions. */
  using Options = typename Rule::Options;

  /** Creates one group. Errors: ValueError for an empty list, or options out of range; as
   *  add_param_group. */
  explicit OptimizerOf(const std::vector<Tensor>& params, const Options& options = {});
  /** Creates one group with a learning rate; other options are the defaults. Errors: as above. */
  template <Number S>
  explicit OptimizerOf(const std::vector<Tensor>& params, S lr)
      : OptimizerOf(params, with_lr(static_cast<double>(lr))) {}
  /** Creates several groups with options of their own. Errors: ValueError if all are empty; as
   *  above. */
  explicit OptimizerOf(const std::vector<ParamGroup<Options>>& groups);
  ~OptimizerOf() override;

  /** Adds a group of parameters with its own options, at any time. Frozen parameters are allowed:
   *  they are updated once they have gradients. Errors: ValueError for options out of range, or a
   *  parameter that is undefined, passed twice or in the optimizer already; DtypeError for one
   *  that is not floating-point; StateError for the result of an operation. Nothing has changed
   *  then. */
  void add_param_group(const std::vector<Tensor>& params, const Options& options);

  /** Returns the options of a group; use set_lr to change its learning rate. Errors: IndexError. */
  const Options& options(std::size_t group = 0) const;
  /** Replaces the options of a group. Errors: IndexError; ValueError for options out of range. */
  void set_options(const Options& options, std::size_t group = 0);

  /** Returns Rule::type_name. */
  std::string_view type_name() const final;
  /** Returns Rule::kUnscalesItself; false if the rule does not declare it. */
  bool unscales_itself() const final;

 protected:
  /** Returns a reference to the group's option lr. */
  double& group_lr(std::size_t group) final;
  /** Returns Rule::states. */
  std::span<const StateSpec> states() const final;
  /** Returns Rule::kept_states of the group's options; all states if the rule does not have it. */
  unsigned kept_states(std::size_t group) const final;
  /** Returns the option betas; {0, 0} if the rule has none or the group has bias_correction off. */
  std::pair<double, double> corrected_betas(std::size_t group) const final;
  /** Calls Rule::run if the rule has several passes, of which only the last gets call.end; else
   *  applies Rule::Update in one. */
  void update(std::span<const ParamUpdate> updates, const UpdateCall& call) final;
  /** Visits Rule::fields, then calls Rule::check. */
  void visit_options(std::size_t group, const OptionVisitor& visit, bool apply) final;

 private:
  static Options with_lr(double lr) {
    Options options;
    options.lr = lr;
    return options;
  }

  struct GroupOptions;  // hidden: a vector of Options costs every user 0.5 MB of compiler memory
  Owner<GroupOptions> options_;
};

}  // namespace mezzo::optim
