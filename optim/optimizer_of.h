// OptimizerOf<Rule>: a whole optimizer from a rule: options by name, their checks, and the settings of one update.
// Sees: optimizer.h, updates.h.
// Read next: sgd.h, adam.h (the rules).
#pragma once

#include "../tensor/error.h"
#include "../tensor/text.h"
#include "optimizer.h"
#include "updates.h"

namespace mezzo::optim {

/** Parameters that share options. */
template <class Options> struct ParamGroup {
  std::vector<Tensor> params;
  Options options = {};
};

template <class Rule> class OptimizerOf : public Optimizer {
 public:
  using Options = typename Rule::Options;

  /** One group. Errors: ValueError for options out of range, and as add_param_group. */
  explicit OptimizerOf(const std::vector<Tensor>& params, const Options& options = {}) {
    add_param_group(params, options);
  }
  /** Several groups, each with options of its own. */
  explicit OptimizerOf(const std::vector<ParamGroup<Options>>& groups) {
    for (const ParamGroup<Options>& group : groups) add_param_group(group.params, group.options);
  }

  /** Adds parameters under options of their own, at any time; a frozen one is fine, it is updated once it has gradients.
   *  Errors: ValueError for options out of range, for a parameter named twice or owned already, or undefined; DtypeError for one that is not
   *  floating; StateError for the result of an operation. Nothing has changed then. */
  void add_param_group(const std::vector<Tensor>& params, const Options& options) {
    Rule::check(options);
    options_.reserve(options_.size() + 1);
    add_slots(params);
    options_.push_back(options);
  }

  /** Options of a group; change its learning rate with set_lr. Errors: IndexError. */
  const Options& options(std::size_t group = 0) const {
    (void)lr(group);
    return options_[group];
  }
  /** Errors: IndexError; ValueError for options out of range. */
  void set_options(const Options& options, std::size_t group = 0) {
    (void)lr(group);
    Rule::check(options);
    options_[group] = options;
  }

  std::string_view type_name() const final { return Rule::type_name; }

 protected:
  double& group_lr(std::size_t group) final { return options_[group].lr; }
  std::span<const std::string_view> state_names() const final { return Rule::state_names; }
  bool keeps_state(std::size_t group) const final { return Rule::keeps_state(options_[group]); }

  void update(std::span<const Update> updates) final {
    std::vector<UpdateTensors> tensors;
    std::vector<typename Rule::Update::Settings> settings;
    tensors.reserve(updates.size());
    settings.reserve(updates.size());
    for (const Update& u : updates) {
      const bool twin = u.slot->master.defined();
      tensors.push_back({u.slot->target(), u.grad, twin ? u.slot->param : Tensor{}, u.state});
      settings.push_back(Rule::settings(options_[u.group], u.slot->steps + 1, u.fresh));
    }
    run_update(update_row<typename Rule::Update>, tensors, settings.data(), sizeof settings[0]);
  }

  void visit_options(std::size_t group, const OptionVisitor& visit, bool apply) final {
    Options options = options_[group];
    Rule::fields(options, [&]<class T>(std::string_view field, T& value) {
      value = static_cast<T>(visit(field, static_cast<double>(value)));
    });
    Rule::check(options);
    if (apply) options_[group] = options;
  }

 private:
  std::vector<Options> options_;
};

namespace detail {

/** Throws unless `holds`, in the words of the grammar. */
inline void require_option(bool holds, std::string_view optimizer, std::string_view option, double got,
                           std::string_view expected) {
  if (!holds)
    fail<ValueError>(optimizer, {.what = std::string(option) + " is out of range",
                                 .got = str(got),
                                 .expected = std::string(expected)});
}

}  // namespace detail

}  // namespace mezzo::optim
