// Saving and loading the state of an optimizer. A load checks and stages every entry before it
// changes anything.
#include <cmath>
#include <unordered_map>

#include "../tensor/core/dispatch.h"
#include "../tensor/text/log.h"
#include "../tensor/text/text.h"
#include "optimizer.h"
#include "step/step_state.h"

namespace mezzo::optim {

namespace {

std::string group_key(std::size_t group, std::string_view option) {
  return str("param_groups.", group, ".", option);
}

/** Returns a copy outside the graph, on the same device. */
Tensor copy_of(const Tensor& x) { return x.detach().clone(); }

/** Replaces a state by the loaded one. Copies into the existing memory if it fits, because captured
 *  steps use that memory. */
void adopt(Tensor& state, Tensor& loaded) {
  const bool fits = state.defined() && loaded.defined() && state.dtype() == loaded.dtype() &&
                    state.device() == loaded.device() && same_dense_layout(state, loaded);
  if (fits)
    state.copy_(loaded);
  else
    state = std::move(loaded);
}

}  // namespace

std::vector<std::string> Optimizer::keys_of(const Names& names) const {
  std::unordered_map<const TensorImpl*, const std::string*> name_of;
  for (const NamedTensor& named : names) name_of.emplace(named.tensor.impl(), &named.name);
  std::vector<std::string> keys;
  for (const Slot& slot : slots()) {
    const auto found = name_of.find(slot.param.impl());
    if (!names.empty() && found == name_of.end())
      fail<ValueError>("state_dict",
                       {.what = str("parameter ", keys.size(), " of the optimizer has no name"),
                        .got = str(slot.param),
                        .hint = "pass the named parameters of every model it updates"});
    keys.push_back(names.empty() ? str(keys.size()) : *found->second);
  }
  return keys;
}

StateDict Optimizer::state_dict(const Names& names) const {
  const NoGradNoCasts plain_ops;
  const auto keys = keys_of(names);
  sync_to_host();
  StateDict out;
  out.numbers["consecutive_skips"] = static_cast<double>(step_state_->record().consecutive_skips);
  for (std::size_t group = 0; group < num_groups(); ++group) {
    out.numbers[group_key(group, "size")] = static_cast<double>(slots(group).size());
    const_cast<Optimizer*>(this)->visit_options(
        group,
        [&](std::string_view option, double value) {
          return out.numbers[group_key(group, option)] = value;
        },
        false);
  }
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (slot.steps > 0) out.numbers[keys[i] + ".step"] = static_cast<double>(slot.steps);
    if (slot.master.defined()) out.tensors[keys[i] + ".master"] = copy_of(slot.master);
    for (std::size_t s = 0; s < states().size(); ++s)
      if (slot.state[s].defined())
        out.tensors[str(keys[i], ".", states()[s].name)] = copy_of(slot.state[s]);
  }
  return out;
}

// ---- loading ------------------------------------------------------------------------------------

/** A load: reads every expected entry, collects the errors, and applies all entries at the end. */
class StateLoad {
 public:
  StateLoad(Optimizer& optimizer, const StateDict& saved, const Names& names,
            std::span<const std::pair<Tensor, Tensor>> incoming = {})
      : optimizer_(optimizer), saved_(saved), keys_(optimizer.keys_of(names)) {
    for (const auto& [tensor, value] : incoming) incoming_[tensor.impl()] = value;
  }

  void stage() {
    optimizer_.sync_to_host();
    skips_ = count("consecutive_skips", false);
    for (std::size_t group = 0; group < optimizer_.num_groups(); ++group) {
      stage_group(group);
      for (std::size_t i = optimizer_.begin_of(group); i < optimizer_.ends_[group]; ++i)
        stage_slot(group, i);
    }
    note_unexpected();
    report();
    for (std::size_t group = 0; group < optimizer_.num_groups(); ++group) visit_group(group);
    if (!overruled_.empty())
      notice_ = str(
          "load_state_dict: saved masters do not round to the current parameters, which are kept: ",
          overruled_);
  }

  /** Applies the load. Does not fail: stage() has checked and allocated everything. */
  void apply() {
    const NoGradNoCasts plain_ops;
    for (std::size_t group = 0; group < optimizer_.num_groups(); ++group) adopt_options(group);
    for (Staged& staged : slots_) {
      for (std::size_t i = 0; i < staged.state.size(); ++i)
        adopt(staged.slot->state[i], staged.state[i]);
      staged.slot->steps = staged.steps;
      if (staged.master.defined()) staged.slot->master.copy_(staged.master);
    }
    optimizer_.step_state_->record().consecutive_skips = skips_;
    optimizer_.step_state_->host_moved();
    if (!notice_.empty()) log_text(Severity::warning, notice_);
  }

 private:
  struct Staged {
    Slot* slot;
    std::array<Tensor, kMaxStates> state;
    Tensor master;
    std::int64_t steps;
  };

  /** Returns a count, which must be a non-negative integer; 0 if an optional one is missing. */
  std::int64_t count(const std::string& key, bool required) {
    const double value = number(key, required);
    if (value >= 0 && value <= 0x1p53 && value == std::floor(value))
      return static_cast<std::int64_t>(value);
    note(mismatched_, str(key, " = ", value));
    return 0;
  }

  double number(const std::string& key, bool required) {
    const auto found = saved_.numbers.find(key);
    if (found == saved_.numbers.end()) {
      if (required) note(missing_, key);
      return 0;
    }
    ++used_;
    return found->second;
  }

  void stage_group(std::size_t group) {
    const std::int64_t size = count(group_key(group, "size"), true);
    const std::size_t present = optimizer_.slots(group).size();
    if (saved_.numbers.count(group_key(group, "size")) > 0 &&
        static_cast<std::size_t>(size) != present)
      note(mismatched_,
           str(group_key(group, "size"), " = ", size, " for ", present, " parameters"));
    optimizer_.visit_options(
        group,
        [&](std::string_view option, double value) {
          (void)number(group_key(group, option), true);
          return value;
        },
        false);
  }

  /** Reads the saved options and makes the optimizer check them. */
  void visit_group(std::size_t group) {
    std::vector<double>& values = options_.emplace_back();
    optimizer_.visit_options(
        group,
        [&](std::string_view option, double) {
          return values.emplace_back(saved_.numbers.find(group_key(group, option))->second);
        },
        false);
  }

  void adopt_options(std::size_t group) {
    const double* next = options_[group].data();
    optimizer_.visit_options(group, [&next](std::string_view, double) { return *next++; }, true);
  }

  /** Returns the saved tensor in the given dtype; undefined if it is missing or mismatched. */
  Tensor tensor(const std::string& key, const Slot& slot, const StateSpec& spec, DType dtype) {
    const Shape shape = spec.shape_for(slot.param.shape());
    const auto found = saved_.tensors.find(key);
    if (found == saved_.tensors.end()) return {};
    ++used_;
    const Tensor& value = found->second;
    if (!value.defined() || !is_floating(value.dtype()) || !(value.shape() == shape)) {
      note(mismatched_, str(key, " is ", value, " for ", slot.param));
      return {};
    }
    const MemoryFormat format =
        spec.follows_format() ? slot.param.memory_format() : MemoryFormat::contiguous;
    const Tensor converted = value.detach().to(slot.param.device()).to(dtype).to(format);
    return converted.impl()->storage == value.impl()->storage ? converted.clone() : converted;
  }

  void stage_slot(std::size_t group, std::size_t index) {
    Slot& slot = optimizer_.slots_[index];
    const std::string& key = keys_[index];
    const DType dtype = compute_dtype(slot.param.dtype());
    Staged staged{.slot = &slot, .state = {}, .master = {}, .steps = count(key + ".step", false)};
    const auto states = optimizer_.states();
    bool any_present = false;
    for (std::size_t s = 0; s < states.size(); ++s) {
      if (!states[s].applies_to(slot.param.shape())) continue;
      const std::string name = str(key, ".", states[s].name);
      staged.state[s] = tensor(name, slot, states[s], dtype);
      any_present |= saved_.tensors.count(name) > 0;
      if (staged.state[s].defined())
        staged.state[s].impl()->storage->set_category(MemoryCategory::optimizer_state);
    }
    const unsigned kept = optimizer_.states_of(group, slot);
    for (std::size_t s = 0; any_present && s < states.size(); ++s)
      if ((kept >> s & 1u) != 0 && saved_.tensors.count(str(key, ".", states[s].name)) == 0)
        note(missing_, str(key, ".", states[s].name));
    stage_master(staged, key);
    slots_.push_back(std::move(staged));
  }

  void stage_master(Staged& staged, const std::string& key) {
    const Slot& slot = *staged.slot;
    const Tensor saved = tensor(key + ".master", slot, {"master"}, DType::f32);
    if (!saved.defined() || !slot.master.defined()) return;
    const auto found = incoming_.find(slot.param.impl());
    const Tensor& param = found == incoming_.end() ? slot.param : found->second;
    const std::vector<float> rounded = saved.to(param.dtype()).to_vector<float>();
    if (rounded == param.to_vector<float>())
      staged.master = saved;
    else
      overruled_ += (overruled_.empty() ? "" : ", ") + key;
  }

  /** Adds the entries that no check has read; `used_` counts those that were read. */
  void note_unexpected() {
    if (used_ == saved_.tensors.size() + saved_.numbers.size()) return;
    std::map<std::string, bool, std::less<>> expected{{"consecutive_skips", true}};
    for (std::size_t group = 0; group < optimizer_.num_groups(); ++group) {
      expected[group_key(group, "size")] = true;
      expected[group_key(group, "materialize_master_grads")] = true;  // a former option of FusedSGD
      optimizer_.visit_options(
          group,
          [&](std::string_view option, double value) {
            expected[group_key(group, option)] = true;
            return value;
          },
          false);
    }
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      for (const StateSpec& state : optimizer_.states())
        if (state.applies_to(optimizer_.slots_[i].param.shape()))
          expected[str(keys_[i], ".", state.name)] = true;
      expected[keys_[i] + ".master"] = expected[keys_[i] + ".step"] = true;
    }
    for (const auto& [key, value] : saved_.tensors)
      if (expected.count(key) == 0) note(unexpected_, key);
    for (const auto& [key, value] : saved_.numbers)
      if (expected.count(key) == 0) note(unexpected_, key);
  }

  static void note(std::string& list, const std::string& entry) {
    list += (list.empty() ? "" : ", ") + entry;
  }

  void report() const {
    if (missing_.empty() && unexpected_.empty() && mismatched_.empty()) return;
    std::string got;
    if (!missing_.empty()) note(got, "missing " + missing_);
    if (!unexpected_.empty()) note(got, "unexpected " + unexpected_);
    if (!mismatched_.empty()) note(got, "mismatched " + mismatched_);
    fail<ValueError>(str(optimizer_.type_name(), ".load_state_dict"),
                     {.what = "the saved state does not fit this optimizer",
                      .got = got,
                      .expected = "the state of the same optimizer over the same parameters",
                      .hint = "build the optimizer as it was when it was saved"});
  }

  Optimizer& optimizer_;
  const StateDict& saved_;
  std::vector<std::string> keys_;  // of all slots
  std::vector<Staged> slots_;
  std::int64_t skips_ = 0;
  std::size_t used_ = 0;
  std::unordered_map<const TensorImpl*, Tensor> incoming_;
  std::vector<std::vector<double>> options_;  // per group, in the order of its options
  std::string missing_, unexpected_, mismatched_, overruled_, notice_;
};

std::function<void()> Optimizer::stage(const StateDict& saved, const Names& names,
                                       std::span<const std::pair<Tensor, Tensor>> incoming) {
  const NoGradNoCasts plain_ops;
  const auto load = std::make_shared<StateLoad>(*this, saved, names, incoming);
  load->stage();
  return [load] { load->apply(); };
}

}  // namespace mezzo::optim
