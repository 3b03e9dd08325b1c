#include "ema.h"

#include <algorithm>
#include <unordered_set>

#include "../tensor/core/dispatch.h"
#include "../tensor/ops/create.h"
#include "../tensor/ops/elementwise/operators.h"
#include "../tensor/text/log.h"
#include "../tensor/text/text.h"
#include "arguments.h"
#include "load.h"

namespace mezzo::nn {

namespace {

constexpr const char* kAverages = "ExponentialMovingAverage";
constexpr std::string_view kPrefix = "average.", kUpdates = "num_updates";

DType averaged_in(DType dtype) { return dtype == f64 ? f64 : f32; }

struct Average {
  std::string name;
  Tensor value;   // f32 or f64
  Tensor weight;  // while swapped: the weight that the average replaces
};

}  // namespace

struct ExponentialMovingAverage::State {
  Module model;
  EmaOptions options;
  std::vector<Average> averages = {};
  std::int64_t updates = 0;
  bool swapped = false;
  StagedLoad weights = {};  // while swapped: restores the weights without allocating

  /** Returns the tensors to average, each once under its first name. */
  std::vector<detail::Slot> slots() const {
    std::unordered_set<const TensorImpl*> wanted;
    for (const NamedTensor& p : model.named_parameters()) wanted.insert(p.tensor.impl());
    if (options.use_buffers)
      for (const NamedTensor& b : model.named_buffers())
        if (is_floating(b.tensor.dtype())) wanted.insert(b.tensor.impl());
    std::vector<detail::Slot> out;
    for (detail::Slot& slot : detail::slots_of(model))
      if (wanted.erase(slot.tensor.impl()) > 0) out.push_back(std::move(slot));
    return out;
  }

  /** Returns slots(). Errors: ValueError if they have changed since construction. */
  std::vector<detail::Slot> fitting_slots() const {
    std::vector<detail::Slot> out = slots();
    const auto fits = [](const detail::Slot& slot, const Average& average) {
      return slot.name == average.name && slot.tensor.shape() == average.value.shape();
    };
    if (!std::equal(out.begin(), out.end(), averages.begin(), averages.end(), fits))
      fail<ValueError>(kAverages, {.what = "the model's tensors have changed since construction",
                                   .got = str(out.size(), " tensors"),
                                   .expected = str("the same ", averages.size())});
    return out;
  }

  /** Prepares the load that restores the weights. */
  void stage_weights(const std::vector<detail::Slot>& slots) {
    StagedLoad staged;
    for (std::size_t i = 0; i < slots.size(); ++i)
      staged.add(slots[i].tensor, slots[i].rule, averages[i].weight);
    weights = std::move(staged);
  }

  /** Restores the weights. Allocates only if the model was converted or moved while swapped. */
  void swap_back() {
    if (!weights.writes().fit()) stage_weights(fitting_slots());
    weights();
    weights = {};
    for (Average& average : averages) average.weight = {};
    swapped = false;
  }

  void require_unswapped(const char* what) const {
    if (swapped)
      fail<StateError>(kAverages, {.what = "the model holds the averages",
                                   .expected = str("its own weights for ", what),
                                   .hint = "call swap() first"});
  }
};

ExponentialMovingAverage::ExponentialMovingAverage(const Module& model, const EmaOptions& options) {
  detail::require_probability(kAverages, "decay", options.decay);
  state_.reset(new State{model, options});
  const NoGradNoCasts plain_ops;
  for (const detail::Slot& slot : state_->slots()) {
    const Tensor value = slot.saved_value();
    state_->averages.push_back({slot.name, value.to(averaged_in(value.dtype())).clone(), {}});
  }
}

ExponentialMovingAverage::~ExponentialMovingAverage() = default;

std::int64_t ExponentialMovingAverage::num_updates() const { return state_->updates; }
bool ExponentialMovingAverage::swapped() const { return state_->swapped; }

void ExponentialMovingAverage::update() {
  const TraceRange range("ExponentialMovingAverage.update");
  state_->require_unswapped("an update");
  const NoGradNoCasts plain_ops;
  const std::vector<detail::Slot> slots = state_->fitting_slots();
  const auto n = static_cast<double>(state_->updates);
  const EmaOptions& options = state_->options;
  const double keep = options.warmup ? std::min(options.decay, (1 + n) / (10 + n)) : options.decay;
  PendingWrites writes;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const Tensor& average = state_->averages[i].value;
    const Tensor value = slots[i].saved_value().to(average.dtype()).to(average.device());
    writes.add(average, average + (value - average) * (1 - keep));
  }
  writes.commit();
  ++state_->updates;
}

void ExponentialMovingAverage::swap() {
  const NoGradNoCasts plain_ops;
  const std::vector<detail::Slot> slots = state_->fitting_slots();
  if (state_->swapped) return state_->swap_back();
  StagedLoad averages;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    Average& average = state_->averages[i];
    averages.add(slots[i].tensor, slots[i].rule, average.value);
    average.weight = slots[i].saved_value().clone();
  }
  state_->stage_weights(slots);
  averages();
  state_->swapped = true;
}

ExponentialMovingAverage::Averaged::Averaged(ExponentialMovingAverage& ema) : ema_(ema) {
  ema_.state_->require_unswapped("a swap");
  ema_.swap();
}

ExponentialMovingAverage::Averaged::~Averaged() {
  try {
    if (ema_.swapped()) ema_.state_->swap_back();
  } catch (const std::exception& error) {
    // The model was converted while swapped, and memory does not suffice to restore the weights.
    log_text(Severity::error, error.what());
  }
}

StateDict ExponentialMovingAverage::averages() const {
  const NoGrad no_grad;
  std::vector<StateDict::Entry> entries;
  for (const Average& average : state_->averages)
    entries.emplace_back(average.name, average.value.clone());
  return StateDict(std::move(entries));
}

StateDict ExponentialMovingAverage::state_dict() const {
  state_->require_unswapped("saving");
  StateDict saved;
  for (const StateDict::Entry& entry : averages())
    saved.set(str(kPrefix, entry.first), entry.second);
  saved.set(kUpdates, full({}, static_cast<double>(state_->updates), {.dtype = i64}));
  return saved;
}

std::function<void()> ExponentialMovingAverage::stage(const StateDict& saved) const {
  state_->require_unswapped("loading");
  std::string wrong;
  const auto add = [&](const char* what, const std::string& name) {
    wrong += str(wrong.empty() ? "" : "; ", what, " \"", name, "\"");
  };
  std::unordered_set<std::string> known{std::string(kUpdates)};
  const Tensor updates = saved.find(kUpdates);
  if (!updates.defined() || updates.numel() != 1) add("missing", std::string(kUpdates));
  for (const Average& average : state_->averages) {
    const std::string name = str(kPrefix, average.name);
    known.insert(name);
    const Tensor value = saved.find(name);
    if (!value.defined())
      add("missing", name);
    else if (!(value.shape() == average.value.shape()) || !is_floating(value.dtype()))
      add("of wrong shape or kind", name);
  }
  for (const StateDict::Entry& entry : saved)
    if (!known.contains(entry.first)) add("unexpected", entry.first);
  for (const auto& [name, number] : saved.numbers) add("unexpected", name);
  if (!wrong.empty())
    fail<ValueError>(kAverages, {.what = "the saved averages do not fit the model", .got = wrong});
  const NoGradNoCasts plain_ops;
  PendingWrites writes;
  for (const Average& average : state_->averages)
    writes.add(average.value, saved.find(str(kPrefix, average.name)));
  const auto count = saved.find(kUpdates).item<std::int64_t>();
  return
      [state = state_.get(), writes = std::make_shared<PendingWrites>(std::move(writes)), count] {
        writes->commit();
        state->updates = count;
      };
}

}  // namespace mezzo::nn
