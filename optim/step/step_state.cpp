#include "step_state.h"

#include <algorithm>
#include <array>

#include "../../tensor/text/text.h"
#include "../optimizer.h"

namespace mezzo::optim {

EndKernel& end_kernel(DeviceKind kind) {
  static std::array<EndKernel, kNumDeviceKinds> kernels{
      [](const StepEnd& end, std::span<NonfiniteWord* const> raised, Device) {
        for (NonfiniteWord* const flag : raised) end.raise(flag);
        end.run();
      }};
  return kernels[static_cast<std::size_t>(kind)];
}

/** The steps of an optimizer in one captured graph. Uploads before each replay what has changed on
 *  the host, and counts the steps of the replay. Checks that the optimizer's tensors have the
 *  addresses that the graph recorded: memory that was freed since may belong to other tensors. */
class CapturedSteps final : public CaptureParticipant {
 public:
  explicit CapturedSteps(std::shared_ptr<StepState> state) : state_(std::move(state)) {}

  std::int64_t steps = 0;  // in one replay

  void finish_capture() override;
  void abandon_capture() noexcept override;
  void before_replay() override;
  void after_replay() override;

 private:
  std::shared_ptr<StepState> state_;
  std::vector<const void*> addresses_;
};

Optimizer& StepState::optimizer() const {
  if (!optimizer_)
    fail<StateError>("Graph.replay", {.what = "an optimizer of the captured step was destroyed",
                                      .hint = "keep it alive as long as the graph"});
  return *optimizer_;
}

// ---- the memory ---------------------------------------------------------------------------------

std::vector<std::pair<double, double>> StepState::betas() const {
  std::vector<std::pair<double, double>> betas;
  for (std::size_t group = 0; group < optimizer().num_groups(); ++group)
    betas.push_back(optimizer().corrected_betas(group));
  return betas;
}

void StepState::allocate(Device to) {
  std::vector<std::pair<double, double>> new_betas = betas();
  if (!memory_.record.defined() || device() != to || new_betas.size() != betas_.size()) {
    const NoCapturePool lasting;
    const auto count = static_cast<std::int64_t>(optimizer().slots().size()),
               groups = static_cast<std::int64_t>(new_betas.size());
    memory_ = {record_tensor<StepRecord>(1, to), record_tensor<UpdateCounter>(count, to),
               empty_tensor({groups}, DType::f64, to)};
    count_ = optimizer().slots().size();
    sent_rates_.clear();
  }
  betas_ = std::move(new_betas);
}

void StepState::send() {
  if (!current_) {
    std::vector<UpdateCounter> counters;
    for (std::size_t group = 0; group < optimizer().num_groups(); ++group) {
      const auto [beta1, beta2] = optimizer().corrected_betas(group);
      for (const Slot& slot : optimizer().slots(group))
        counters.emplace_back(UpdateCounter{.beta1 = beta1, .beta2 = beta2, .steps = slot.steps})
            .prepare();
    }
    upload(memory_.counters, counters.data(), counters.size() * sizeof(UpdateCounter));
    upload(memory_.record, &record_, sizeof record_);
    current_ = true;
  }
  std::vector<double> rates;
  for (std::size_t group = 0; group < optimizer().num_groups(); ++group)
    rates.push_back(optimizer().lr(group));
  if (rates == sent_rates_) return;
  upload(memory_.rates, rates.data(), rates.size() * sizeof(double));
  sent_rates_ = std::move(rates);
}

// ---- steps --------------------------------------------------------------------------------------

void StepState::start(std::span<ParamUpdate> updates) {
  const auto device_of = [](const ParamUpdate& u) { return u.tensors[kGrad].device(); };
  Device to = device_of(updates[0]);
  for (const ParamUpdate& u : updates)
    if (device_of(u) != to) to = cpu;
  const bool capturing = Capture::current() != nullptr;
  const bool fits = memory_.record.defined() && device() == to && betas() == betas_;
  Capture::require_prepared("step", fits || !ahead_,
                            "an optimizer has changed since its last step");
  if (!fits) {
    sync_to_host();
    current_ = false;
    allocate(to);
  }
  if (capturing)
    join_capture();
  else
    send();
  copies_.clear();
  const auto memory_on = [&](Device there) -> const Memory& {
    if (there == to) return memory_;
    for (const Memory& copy : copies_)
      if (copy.counters.device() == there) return copy;
    copies_.push_back({{}, memory_.counters.to(there), memory_.rates.to(there)});
    return copies_.back();
  };
  for (ParamUpdate& u : updates) {
    const Memory& memory = memory_on(device_of(u));
    u.time = {memory.rates.data<double>() + u.group,
              static_cast<const UpdateCounter*>(memory.counters.raw_data()) + u.index};
  }
}

StepEnd StepState::end(const FoundInf& found_inf) const {
  return {.record = static_cast<StepRecord*>(memory_.record.raw_data()),
          .limit = skip_limit_,
          .found_inf = found_inf.data()};
}

std::int64_t StepState::count(std::span<const ParamUpdate> updates) {
  if (recording_) {
    ++recording_->steps;
    return -1;
  }
  if (device() == cpu) {
    auto* const counters = static_cast<UpdateCounter*>(memory_.counters.raw_data());
    for (const ParamUpdate& u : updates) counters[u.index].advance();
    end({}).run();
  }
  run_ahead(1);
  return record_.steps;
}

void StepState::run_ahead(std::int64_t steps) {
  record_.steps += steps;
  ahead_ = true;
}

void StepState::count_on_host(bool skipped) {
  sync_to_host();
  record_.note(skipped, skip_limit_);
  host_moved();
}

void StepState::finish(bool deferred) {
  if (!ahead_ || device() == cpu) {
    sync_to_host();
    notify(record_);
  } else if (deferred && !Capture::current()) {
    poll(1);
  }
}

// ---- the host's copy ----------------------------------------------------------------------------

void StepState::sync_to_host() {
  if (!ahead_) return;
  download(memory_.record, &record_, sizeof record_);
  ahead_ = false;
  if (!optimizer_) return;
  std::vector<UpdateCounter> downloaded;
  const auto* counters = static_cast<const UpdateCounter*>(memory_.counters.raw_data());
  if (device() != cpu) {
    downloaded.resize(count_);
    download(memory_.counters, downloaded.data(), downloaded.size() * sizeof(UpdateCounter));
    counters = downloaded.data();
  }
  for (Slot& slot : optimizer_->slots().first(count_)) slot.steps = (counters++)->steps;
  optimizer_->last_result_ = record_.was_skipped(0) ? StepResult::skipped : StepResult::stepped;
  notify(record_);
}

void StepState::observe(const std::shared_ptr<OptimizerHooks>& observer, std::int64_t skip_limit) {
  const std::shared_ptr<OptimizerHooks> former = observer_.lock();
  if (former && former != observer) {
    Capture::require_prepared("step", !ahead_, "another scaler has stepped the optimizer");
    sync_to_host();
    former->other_skips = std::exchange(record_.consecutive_skips, observer->other_skips);
    host_moved();
  }
  observer_ = observer;
  skip_limit_ = skip_limit;
}

void StepState::notify(const StepRecord& now) {
  if (now.steps < reported_.steps) return;  // a read of poll() that was started before sync_to_host
  const StepRecord known = std::exchange(reported_, now);
  const std::int64_t skips = now.skipped - known.skipped;
  if (skips <= 0) return;
  const bool diverged = now.divergences != known.divergences;
  if (const auto observer = observer_.lock())
    observer->skips_found(optimizer(), skips, diverged ? now.skips_at_divergence : 0);
}

void StepState::poll(std::int64_t steps) {
  since_read_ += steps;
  const bool is_due = since_read_ >= kPollSteps;
  std::unique_ptr<AsyncRead> former;
  if (read_ && (is_due || read_->arrived())) former = std::move(read_);
  if (is_due) {
    read_ = read_later(memory_.record, sizeof(StepRecord));
    since_read_ = 0;
  }
  if (!former) return;
  former->wait();
  const auto& record = *static_cast<const StepRecord*>(former->data());
  // An error covers all steps so far, so that the next ones do not report them again.
  if (record.steps > reported_.steps && record.divergences != reported_.divergences) sync_to_host();
  notify(record);
}

bool StepState::was_skipped(std::int64_t steps) {
  sync_to_host();
  const std::int64_t age = record_.steps - steps;
  if (age >= StepResult::kKept)
    fail<StateError>("StepResult", {.what = "the result is too old",
                                    .got = str(age, " later steps"),
                                    .expected = str("fewer than ", StepResult::kKept),
                                    .hint = "look at a result before the next step"});
  return record_.was_skipped(age);
}

StepResult::Value StepResult::value() const {
  if (!state_) return value_;
  if (steps_ < 0 || Capture::current())
    fail<StateError>("StepResult",
                     {.what = "the overflow flag is unknown while a step is being captured",
                      .hint = "look at optimizer.last_result() after a replay"});
  value_ = state_->was_skipped(steps_) ? skipped : stepped;
  state_.reset();
  return value_;
}

std::string_view name(StepResult::Value result) {
  constexpr std::array<std::string_view, 3> names{"stepped", "skipped", "no_grads"};
  return names[result];
}

// ---- captured steps -----------------------------------------------------------------------------

void StepState::join_capture() {
  Capture* const capture = Capture::current();
  if (!capture) return;
  if (!recording_) recording_ = std::make_shared<CapturedSteps>(shared_from_this());
  capture->join(recording_);
}

namespace {

/** Returns the addresses of an optimizer's parameters, masters and states. */
std::vector<const void*> addresses_of(const Optimizer& optimizer) {
  std::vector<const void*> addresses;
  const auto add = [&](const Tensor& x) {
    addresses.push_back(x.defined() ? x.raw_data() : nullptr);
  };
  for (const Slot& slot : optimizer.slots()) {
    add(slot.param);
    add(slot.master);
    for (const Tensor& state : slot.state) add(state);
  }
  return addresses;
}

}  // namespace

void CapturedSteps::finish_capture() {
  state_->recording_.reset();
  addresses_ = addresses_of(state_->optimizer());
}

void CapturedSteps::abandon_capture() noexcept {
  state_->recording_.reset();
  Optimizer* const optimizer = state_->owner();
  if (!optimizer) return;
  if (OptimizerHooks* hooks = optimizer->hooks()) hooks->capture_abandoned(*optimizer);
}

void CapturedSteps::before_replay() {
  Optimizer& optimizer = state_->optimizer();
  if (const std::size_t count = optimizer.slots().size(); count != state_->count_)
    fail<StateError>("Graph.replay",
                     {.what = "parameters were added to an optimizer since the step was captured",
                      .got = str(count, " parameters"),
                      .expected = str(state_->count_),
                      .hint = "capture the step again"});
  if (OptimizerHooks* hooks = optimizer.hooks()) hooks->before_replay(optimizer);
  state_->send();
  if (addresses_of(optimizer) == addresses_) return;
  fail<StateError>(
      "Graph.replay",
      {.what = "the memory of an optimizer's parameters or states has changed since the capture",
       .hint = "capture the step again after moving or converting a model, or dropping states"});
}

void CapturedSteps::after_replay() {
  Optimizer& optimizer = state_->optimizer();
  state_->run_ahead(steps);
  optimizer.written();
  if (OptimizerHooks* hooks = optimizer.hooks()) hooks->after_replay(optimizer);
  state_->poll(steps);
}

}  // namespace mezzo::optim
