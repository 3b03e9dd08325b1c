// Member functions of OptimizerOf, in a separate header so that only the files that instantiate an
// optimizer compile them.
#pragma once

#include <array>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "../tensor/memory/allocator.h"
#include "optimizer_of.h"
#include "updates.h"

namespace mezzo::optim {

/** Returns the options as another struct with the same fields. */
template <class Rule, class To, class From> To with_fields(From from) {
  To to;
  std::array<double, 16> values;
  std::size_t count = 0, next = 0;
  Rule::fields(from, [&](std::string_view, const auto& value, bool = true) {
    values.at(count++) = static_cast<double>(value);
  });
  Rule::fields(to, [&]<class T>(std::string_view, T& value, bool = true) {
    value = static_cast<T>(values.at(next++));
  });
  return to;
}

/** The options in `settings`; only its type is used. */
template <class Options> Options options_in(const SettingsOf<Options>& settings);

/** Returns the options in the type that the formula takes. */
template <class Rule> auto common_options(const typename Rule::Options& options) {
  using Common = decltype(options_in(std::declval<typename Rule::Update::Settings>()));
  if constexpr (requires { Rule::common(options); })
    return Rule::common(options);
  else if constexpr (std::is_same_v<Common, typename Rule::Options>)
    return options;
  else
    return with_fields<Rule, Common>(options);
}

/** Returns new memory like a parameter, in its compute dtype. Errors: OutOfMemory. */
inline Tensor compute_like(const Tensor& param) {
  return empty_tensor(param.shape(), compute_dtype(param.dtype()), param.device(), false,
                      param.memory_format());
}

/** Adds a tensor like each parameter, in its compute dtype, that lives until the end of the step.
 *  Errors: OutOfMemory. */
inline void add_workspace(std::span<TensorTuple> tensors, std::size_t list) {
  const CategoryScope workspace(MemoryCategory::workspace);
  for (TensorTuple& t : tensors) t[list] = compute_like(t[kParam]);
}

/** Returns one list of the tuples. */
inline std::vector<Tensor> list_of(std::span<const TensorTuple> tensors, std::size_t list) {
  std::vector<Tensor> out;
  for (const TensorTuple& t : tensors) out.push_back(t[list]);
  return out;
}

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
  using Update = typename Rule::Update;
  std::vector<TensorTuple> tensors;
  std::vector<typename Update::Settings> settings;
  tensors.reserve(updates.size());
  settings.reserve(updates.size());
  for (const ParamUpdate& u : updates) {
    tensors.push_back(u.tensors);
    auto options = common_options<Rule>((*options_)[u.group]);
    SettingsOf<decltype(options)>& common = settings.emplace_back();
    common = {std::move(options), u.time, u.fresh};
  }
  if constexpr (requires { Rule::run(tensors, settings, call); })
    Rule::run(std::move(tensors), settings, call);  // for rules with several passes
  else
    run_update(update_row<Update>, std::move(tensors), settings.data(), call);
}

template <class Rule>
void OptimizerOf<Rule>::visit_options(std::size_t group, const OptionVisitor& visit, bool apply) {
  Options options = (*options_)[group];
  Rule::fields(options, [&]<class T>(std::string_view field, T& value, bool is_saved = true) {
    if (is_saved) value = static_cast<T>(visit(field, static_cast<double>(value)));
  });
  Rule::check(options);
  if (apply) (*options_)[group] = options;
}

}  // namespace mezzo::optim
