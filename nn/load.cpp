// Module::state_dict, Module::stage and Module::load_state_dict.
#include "load.h"

#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "../tensor/core/dispatch.h"
#include "../tensor/text/did_you_mean.h"
#include "../tensor/text/text.h"
#include "walk.h"

namespace mezzo::nn {

using detail::Slot;

std::vector<Slot> detail::slots_of(const Module& module) {
  std::vector<Slot> slots;
  detail::walk(module, [&](const std::string& path, const Module& owner) {
    const ModuleState& state = owner.state();
    for (const auto* list : {&state.parameters, &state.buffers})
      for (const NamedTensor& entry : *list)
        slots.push_back({detail::dotted(path, entry.name), entry.tensor, state.state_rule});
  });
  return slots;
}

namespace {

constexpr std::size_t kMostListed = 8;

/** Returns a list such as "a, b, and 12 more". */
std::string listed(const std::vector<std::string>& items) {
  std::string text;
  const std::size_t shown = items.size() <= kMostListed + 1 ? items.size() : kMostListed;
  for (std::size_t i = 0; i < shown; ++i) text += (i > 0 ? ", " : "") + items[i];
  if (shown < items.size()) text += str(", and ", items.size() - shown, " more");
  return text;
}

/** Names that do not match between a module and given values. */
struct Mismatches {
  std::vector<std::string> missing, unexpected;
  std::vector<std::string> mismatched;  // names of values of another shape or kind
  std::vector<std::string> misshapen;   // the same with their shapes, for errors
};

/** The writes of a load and its mismatches, collected before anything is written. */
struct Plan {
  std::vector<std::pair<Slot, Tensor>> writes;
  Mismatches mismatches;
};

/** Returns the first of `prefixes` that a name begins with, or none. Counts its uses. */
class Prefixes {
 public:
  explicit Prefixes(std::vector<std::string> prefixes)
      : prefixes_(std::move(prefixes)), uses_(prefixes_.size()) {}

  /** Returns the position of the first prefix of the name. */
  std::optional<std::size_t> find(std::string_view name) {
    for (std::size_t i = 0; i < prefixes_.size(); ++i)
      if (name.starts_with(prefixes_[i])) {
        ++uses_[i];
        return i;
      }
    return {};
  }
  /** Throws ValueError if a prefix was never found. */
  void require_used(std::string_view op, const char* option) const {
    for (std::size_t i = 0; i < prefixes_.size(); ++i)
      if (uses_[i] == 0)
        fail<ValueError>(op, {.what = str("no name begins with an entry of .", option),
                              .got = str('"', prefixes_[i], '"')});
  }

 private:
  std::vector<std::string> prefixes_;
  std::vector<std::int64_t> uses_;
};

/** Returns the values under their new names. Errors: ValueError for a rename that fits no name, and
 *  for two values that get one name. */
StateDict renamed(std::string_view op, const StateDict& values, const LoadOptions& options) {
  if (options.rename.empty()) return values;
  std::vector<std::string> from;
  for (const auto& [before, after] : options.rename) from.push_back(before);
  Prefixes prefixes(from);
  std::vector<StateDict::Entry> entries;
  for (const auto& [name, value] : values) {
    const auto at = prefixes.find(name);
    entries.emplace_back(at ? options.rename[*at].second + name.substr(from[*at].size()) : name,
                         value);
  }
  prefixes.require_used(op, "rename");
  StateDict out(std::move(entries));
  out.numbers = values.numbers;
  return out;
}

/** Removes the slots and values whose names options.skip has. Errors: ValueError for an entry that
 *  fits no name. */
void leave_out(std::string_view op, const LoadOptions& options, std::vector<Slot>& slots,
               StateDict& values) {
  if (options.skip.empty()) return;
  Prefixes prefixes(options.skip);
  std::erase_if(slots, [&](const Slot& slot) { return prefixes.find(slot.name).has_value(); });
  for (const std::string& name : values.names())
    if (prefixes.find(name)) values.erase(name);
  prefixes.require_used(op, "skip");
}

bool same_kind(DType a, DType b) { return is_floating(a) == is_floating(b); }

Plan plan_of(const std::vector<Slot>& slots, const StateDict& values) {
  std::unordered_map<std::string_view, Tensor> by_name(values.begin(), values.end());
  std::unordered_set<const TensorImpl*> present;
  for (const Slot& slot : slots)
    if (by_name.contains(slot.name)) present.insert(slot.tensor.impl());
  Plan plan;
  for (const Slot& slot : slots) {
    const auto it = by_name.find(slot.name);
    if (it == by_name.end()) {
      if (!present.contains(slot.tensor.impl())) plan.mismatches.missing.push_back(slot.name);
      continue;
    }
    const Tensor& value = it->second;
    if (!value.defined() || !(value.shape() == slot.tensor.shape()) ||
        !same_kind(value.dtype(), slot.tensor.dtype())) {
      plan.mismatches.mismatched.push_back(slot.name);
      plan.mismatches.misshapen.push_back(str("\"", slot.name, "\" ", value, " for ", slot.tensor));
    } else
      plan.writes.emplace_back(slot, value);
  }
  std::unordered_set<std::string_view> known;
  for (const Slot& slot : slots) known.insert(slot.name);
  for (const StateDict::Entry& entry : values)
    if (!known.contains(entry.first)) plan.mismatches.unexpected.push_back(entry.first);
  for (const auto& [name, number] : values.numbers) plan.mismatches.unexpected.push_back(name);
  return plan;
}

std::vector<std::string> quoted(const std::vector<std::string>& names) {
  std::vector<std::string> out;
  for (const std::string& name : names) out.push_back('"' + name + '"');
  return out;
}

/** Returns the unexpected names with suggestions: similar missing names of the module, or else
 *  similar names among all of the module's. */
std::vector<std::string> with_hints(const Mismatches& mismatches, const std::vector<Slot>& slots) {
  std::vector<std::string> all, out;
  for (const Slot& slot : slots) all.push_back(slot.name);
  for (const std::string& name : mismatches.unexpected) {
    std::string hint = did_you_mean(name, mismatches.missing);
    if (hint.empty()) hint = did_you_mean(name, all);
    out.push_back(hint.empty() ? '"' + name + '"' : '"' + name + "\" (" + hint + ")");
  }
  return out;
}

/** Returns the error text for the mismatches. */
Complaint complaint_about(const Module& module, const Mismatches& mismatches,
                          const std::vector<Slot>& slots, bool strict) {
  std::string got;
  const auto add_list = [&](const char* title, const std::vector<std::string>& items) {
    if (items.empty()) return;
    got += str(got.empty() ? "" : "; ", items.size(), " ", title, ": ", listed(items));
  };
  if (strict) {
    add_list("missing", quoted(mismatches.missing));
    add_list("unexpected", with_hints(mismatches, slots));
  }
  add_list("of wrong shape or kind", mismatches.misshapen);
  return {.what = str("the values do not fit ", module.kind()), .got = got};
}

/** Returns what to do about these mismatches; `strict_hint` if only names mismatch. */
std::string hint_about(const Mismatches& mismatches, const char* strict_hint) {
  if (mismatches.misshapen.empty()) return strict_hint;
  return "to leave them out, name them in .skip, or pass .ignore_mismatched_sizes = true";
}

/** Returns the plan of a load. Errors: ValueError for mismatches. */
Plan checked_plan(std::string_view op, const Module& module, const StateDict& given,
                  const LoadOptions& options, const char* strict_hint) {
  std::vector<Slot> slots = detail::slots_of(module);
  StateDict values = renamed(op, given, options);
  leave_out(op, options, slots, values);
  Plan plan = plan_of(slots, values);
  const Mismatches& mismatches = plan.mismatches;
  const bool names_fit = mismatches.missing.empty() && mismatches.unexpected.empty();
  if ((mismatches.misshapen.empty() || options.ignore_mismatched_sizes) &&
      (names_fit || !options.strict))
    return plan;
  Complaint complaint = complaint_about(module, mismatches, slots, options.strict);
  complaint.hint = hint_about(mismatches, strict_hint);
  fail<ValueError>(op, complaint);
}

StagedLoad staged(const Plan& plan) {
  StagedLoad load;
  for (const auto& [slot, value] : plan.writes) load.add(slot.tensor, slot.rule, value);
  return load;
}

}  // namespace

void StagedLoad::add(const Tensor& tensor, const std::shared_ptr<const StateRule>& rule,
                     const Tensor& value) {
  if (!rule) return writes_.add(tensor, value);
  const NoGradNoCasts plain_ops;
  rule->stage(tensor, value.detach().to(tensor.device()), writes_);
  ruled_.emplace_back(rule, tensor);
}

void StagedLoad::operator()() const {
  writes_.commit();
  for (const auto& [rule, tensor] : ruled_) rule->loaded(tensor);
}

StateDict Module::state_dict() const {
  const NoGradNoCasts plain_ops;
  std::vector<StateDict::Entry> entries;
  std::unordered_map<const TensorImpl*, Tensor> copies;
  for (const Slot& slot : detail::slots_of(*this)) {
    Tensor& copy = copies[slot.tensor.impl()];
    if (!copy.defined()) copy = slot.saved_value().clone();
    entries.emplace_back(slot.name, copy);
  }
  return StateDict(std::move(entries));
}

LoadReport Module::load_state_dict(const StateDict& values, const LoadOptions& options) const {
  return detail::load_values("load_state_dict", *this, values, options);
}

StagedLoad Module::stage(const StateDict& values, const LoadOptions& options) const {
  return staged(checked_plan("load_state_dict", *this, values, options, ""));
}

LoadReport detail::load_values(std::string_view op, const Module& module, const StateDict& values,
                               const LoadOptions& options) {
  const NoGradNoCasts plain_ops;
  Plan plan = checked_plan(op, module, values, options, "pass {.strict = false} to load what fits");
  staged(plan)();
  return {std::move(plan.mismatches.missing), std::move(plan.mismatches.unexpected),
          std::move(plan.mismatches.mismatched)};
}

}  // namespace mezzo::nn
