// OptimizerOf<Rule>: a whole optimizer from a rule: options by name, their checks, and the settings of one update.
// Sees: optimizer.h, update_settings.h.
// Read next: optimizer_of_members.h (the bodies, for whoever instantiates one), sgd.h, adam.h (the rules).
#pragma once

#include "optimizer.h"
#include "update_settings.h"

namespace mezzo::optim {

/** Parameters that share options. */
template <class Options> struct ParamGroup {
  std::vector<Tensor> params;
  Options options = {};
};

/** Visits the options that every optimizer with two running means has. */
template <class Options, class Visit> void visit_adaptive_options(Options& o, const Visit& visit) {
  visit("lr", o.lr);
  visit("beta1", o.betas.first);
  visit("beta2", o.betas.second);
  visit("eps", o.eps);
  visit("weight_decay", o.weight_decay);
}

template <class Rule> class OptimizerOf : public Optimizer {
 public:
  using Options = typename Rule::Options;

  /** One group. Errors: ValueError for options out of range, and as add_param_group. */
  explicit OptimizerOf(const std::vector<Tensor>& params, const Options& options = {});
  /** Several groups, each with options of its own. */
  explicit OptimizerOf(const std::vector<ParamGroup<Options>>& groups);

  /** Adds parameters under options of their own, at any time; a frozen one is fine, it is updated once it has gradients.
   *  Errors: ValueError for options out of range, for a parameter named twice or owned already, or undefined; DtypeError for one that is not
   *  floating; StateError for the result of an operation. Nothing has changed then. */
  void add_param_group(const std::vector<Tensor>& params, const Options& options);

  /** Options of a group; change its learning rate with set_lr. Errors: IndexError. */
  const Options& options(std::size_t group = 0) const;
  /** Errors: IndexError; ValueError for options out of range. */
  void set_options(const Options& options, std::size_t group = 0);

  std::string_view type_name() const final;
  bool unscales_itself() const final;

 protected:
  double& group_lr(std::size_t group) final;
  std::span<const StateSpec> states() const final;
  bool keeps_state(std::size_t group) const final;
  std::pair<double, double> corrected_betas(std::size_t group) const final;
  void update(std::span<const ParamUpdate> updates, const UpdateCall& call) final;
  void visit_options(std::size_t group, const OptionVisitor& visit, bool apply) final;

 private:
  std::vector<Options> options_;
};

}  // namespace mezzo::optim
