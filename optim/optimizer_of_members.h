// Member functions of OptimizerOf, in a separate header so that only the files that instantiate an
// optimizer compile them.
#pragma once

#include "optimizer_of.h"
#include "updates.h"

namespace mezzo::optim {

/** The options of each group. */
template <class Rule> struct OptimizerOf<Rule>::GroupOptions : std::vector<Options> {};

template <class Rule>
OptimizerOf<Rule>::OptimizerOf(const std::vector<Tensor>& params, const Options& options)
    : options_(new GroupOptions) {
  add_param_group(params, options);
  require_parameters();
}

template <class Rule>
OptimizerOf<Rule>::OptimizerOf(const std::vector<ParamGroup<Options>>& groups)
    : options_(new GroupOptions) {
  for (const ParamGroup<Options>& group : groups) add_param_group(group.params, group.options);
  require_parameters();
}

template <class Rule> OptimizerOf<Rule>::~OptimizerOf() = default;

template <class Rule>
void OptimizerOf<Rule>::add_param_group(const std::vector<Tensor>& params, const Options& options) {
  Rule::check(options);
  if constexpr (requires { Rule::check_parameters(params); }) Rule::check_parameters(params);
  options_->reserve(options_->size() + 1);
  add_slots(params);
  options_->push_back(options);
}

template <class Rule> auto OptimizerOf<Rule>::options(std::size_t group) const -> const Options& {
  (void)lr(group);
  return (*options_)[group];
}

template <class Rule>
void OptimizerOf<Rule>::set_options(const Options& options, std::size_t group) {
  (void)lr(group);
  Rule::check(options);
  (*options_)[group] = options;
}

template <class Rule> std::string_view OptimizerOf<Rule>::type_name() const {
  return Rule::type_name;
}

template <class Rule> bool OptimizerOf<Rule>::unscales_itself() const {
  if constexpr (requires { Rule::kUnscalesItself; })
    return Rule::kUnscalesItself;
  else
    return false;
}

template <class Rule> double& OptimizerOf<Rule>::group_lr(std::size_t group) {
  return (*options_)[group].lr;
}

template <class Rule> std::span<const StateSpec> OptimizerOf<Rule>::states() const {
  return Rule::states;
}

template <class Rule> unsigned OptimizerOf<Rule>::kept_states(std::size_t group) const {
  if constexpr (requires { Rule::kept_states((*options_)[group]); })
    return Rule::kept_states((*options_)[group]);
  else
    return (1u << Rule::states.size()) - 1;
}

template <class Rule>
std::pair<double, double> OptimizerOf<Rule>::corrected_betas(std::size_t group) const {
  const Options& o = (*options_)[group];
  if constexpr (requires { o.bias_correction; })
    if (!o.bias_correction) return {0, 0};
  if constexpr (requires { o.betas; })
    return o.betas;
  else
    return {0, 0};
}

template <class Rule>
void OptimizerOf<Rule>::update(std::span<const ParamUpdate> updates, const UpdateCall& call) {
  std::vector<UpdateTensors> tensors;
  std::vector<typename Rule::Update::Settings> settings;
  tensors.reserve(updates.size());
  settings.reserve(updates.size());
  for (const ParamUpdate& u : updates) {
    const bool twin = u.slot->master.defined();
    tensors.push_back({u.slot->target(), u.grad, twin ? u.slot->param : u.low_copy, u.state});
    settings.push_back(Rule::settings((*options_)[u.group], u.slot->steps + 1, u.fresh));
    settings.back().time = u.time;
  }
  if constexpr (requires { Rule::run(tensors, settings, call); })
    Rule::run(tensors, settings, call);  // for rules with several passes
  else
    run_update(update_row<typename Rule::Update>, tensors, settings.data(), sizeof settings[0],
               call);
}

template <class Rule>
void OptimizerOf<Rule>::visit_options(std::size_t group, const OptionVisitor& visit, bool apply) {
  Options options = (*options_)[group];
  Rule::fields(options, [&]<class T>(std::string_view field, T& value) {
    value = static_cast<T>(visit(field, static_cast<double>(value)));
  });
  Rule::check(options);
  if (apply) (*options_)[group] = options;
}

}  // namespace mezzo::optim
