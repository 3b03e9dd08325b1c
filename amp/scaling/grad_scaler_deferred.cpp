// Deferred steps of a GradScaler: overflow flags and the scale stay on the device until the host
// reads them.
#include <unordered_set>

#include "../../autograd/ops/create.h"
#include "grad_scaler_parts.h"
#include "nonfinite_gradient.h"

namespace mezzo::amp {

using optim::Optimizer;
using optim::StepResult;

/** Checks, after each replay, the optimizers that captured steps update. */
class GradScaler::CaptureObserver final : public CaptureParticipant {
 public:
  explicit CaptureObserver(GradScaler& scaler) : scaler_(&scaler) {}
  /** Called when the scaler is destroyed. */
  void leave() { scaler_ = nullptr; }

  void before_replay() override {}
  void after_replay() override {
    if (!scaler_) return;
    scaler_->history_.tick();
    for (Optimizer* optimizer : optimizers) scaler_->watch(*optimizer);
  }
  void abandon_capture() noexcept override {
    if (scaler_) scaler_->end_iteration();
  }

  std::unordered_set<Optimizer*> optimizers;

 private:
  GradScaler* scaler_;
};

void GradScaler::leave_captures() {
  if (observer_) observer_->leave();
}

void GradScaler::join_capture() {
  Capture* capture = Capture::current();
  if (!capture) return;
  if (!observer_) observer_ = std::make_shared<CaptureObserver>(*this);
  capture->join(observer_);
}

const GradScaler::Flagged& GradScaler::flag_for(const Optimizer& optimizer, Device device) {
  Flagged& flagged = flags_[&optimizer];
  if (!flagged.flag.flag.defined() || flagged.flag.flag.device() != device) {
    flagged = {lowered_flag(device), flagged_.size()};
    flagged_.push_back(optimizer.clock().shared_from_this());
  }
  return flagged;
}

/** Copies an optimizer's flag to the host and resets it. Waits for the device. */
void GradScaler::read_flag(const Optimizer& optimizer, PerOptimizer& state) {
  if (!state.flag.flag.defined()) return;
  const FoundInf found = std::exchange(state.flag, {});
  note(found.flag, optimizer, state);
  lower(found);
}

void GradScaler::step_deferred(Optimizer& optimizer, const optim::StepOptions& options) {
  constexpr std::string_view op = "GradScaler.step_deferred";
  const bool can_defer = optimizer.can_defer();
  Capture::require_prepared(op, can_defer, "the optimizer takes its first step");
  if (!options_.enabled) {
    if (!can_defer) return void(optimizer.step(options));
    optimizer.step_deferred(options, {});
    return optimizer.clock().flush();
  }
  PerOptimizer state = state_of(op, optimizer);
  if (state.stage == Stage::stepped) refuse_second_step(op);
  if (!can_defer) {
    (void)step(optimizer, options);
    const auto gradients = gradients_of(optimizer);
    defers_ = !gradients.empty();
    // Creates the flag here: one created in a captured step would be reset at every replay.
    if (defers_ && !Capture::current()) flag_for(optimizer, gradients[0].device());
    return;
  }
  const Device device = gradients_of(optimizer)[0].device();
  Entry entry(*this, optimizer);
  (void)watches_[&optimizer];  // allocates it now: nothing may fail after the step
  defers_ = true;
  optim::Deferral deferral{.skip_limit = options_.max_consecutive_skips};
  if (state.stage == Stage::ready && optimizer.unscales_itself()) {
    check_gradients(optimizer, state);
    deferral.scale = store_.on(device).scale(f64).data<double>();
  } else if (state.stage == Stage::ready) {
    unscale(optimizer, state);
    state.stage = Stage::unscaled;
    entry.set(state);
  }
  join_capture();
  if (!state.flag.flag.defined()) {  // a synchronous unscale_ has set found_inf
    state.flag = flag_for(optimizer, device).flag;
    state.flag.flag.fill_(state.found_inf ? 1 : 0);
  }
  deferral.found_inf = state.flag.flag;
  optimizer.step_deferred(options, deferral);
  state.stage = Stage::stepped;
  state.had_gradients = true;
  state.clock = optimizer.clock().shared_from_this();
  entry.set(state);
  if (Capture::current())
    observer_->optimizers.insert(&optimizer);
  else
    watch(optimizer);
}

void GradScaler::watch(Optimizer& optimizer) {
  watches_[&optimizer].tick(optimizer, std::string(optimizer.type_name()),
                            [this] { return scale_number(); });
}

StepResult GradScaler::last_verdict(Optimizer& optimizer) {
  if (options_.enabled)
    watches_[&optimizer].look(optimizer, std::string(optimizer.type_name()),
                              [this] { return scale_number(); });
  return optimizer.last_result();
}

/** Launches one kernel per optimizer; the last one updates the scale. */
void GradScaler::update_on_device() {
  std::optional<Device> device;
  for (const auto& [optimizer, state] : optimizers_)
    if (state.flag.flag.defined()) device = state.flag.flag.device();
  for (const auto& [optimizer, flagged] : flags_)
    if (!device) device = flagged.flag.flag.device();
  const DeviceScale& scale = store_.on(device.value_or(cpu));
  std::size_t left = optimizers_.size();
  for (auto& [optimizer, state] : optimizers_) {
    ScaleCall call = scale.call(rule());
    if (state.clock)
      if (const auto count = state.clock->take_pending()) call.clock = *count;
    call.noted = call.lowered = of_device(state.flag);
    call.found = state.found_inf;
    call.any = state.had_gradients;
    call.moves = --left == 0;
    store_.run(call);
  }
}

/** Adds the updates on the device since the last call to the history, as one event. */
void GradScaler::record_changes() const {
  history_.make_room();
  const std::optional<ScaleChanges> changes = store_.take_changes();
  if (!changes) return;
  if (changes->overflowed)
    history_.note(changes->former, changes->now, ScaleReason::overflow, text_of(*changes));
  else if (changes->now != changes->former)
    history_.note(changes->former, changes->now, ScaleReason::growth);
}

std::string GradScaler::text_of(const ScaleChanges& changes) const {
  if (changes.first_nonfinite == optim::NonfiniteLocation::kNone) return host_first_nonfinite_;
  const auto noted = optim::NonfiniteLocation::of(changes.first_nonfinite);
  const std::size_t number = optimizer_of(noted);
  const Optimizer* optimizer = number < flagged_.size() ? flagged_[number]->owner() : nullptr;
  return optimizer ? nonfinite_gradient_text(*optimizer, noted) : "";
}

double GradScaler::get_scale() const {
  if (!options_.enabled) return 1;
  if (Capture::current())
    fail<StateError>("GradScaler.get_scale",
                     {.what = "the scale is read while a step is being captured",
                      .hint = "read it after a replay"});
  record_changes();
  return scale_number();
}

std::vector<ScaleEvent> GradScaler::events() const {
  record_changes();
  return history_.events();
}

bool GradScaler::found_inf(const Optimizer& optimizer) const {
  const auto found = optimizers_.find(&optimizer);
  if (found == optimizers_.end()) return false;
  const PerOptimizer& state = found->second;
  return state.found_inf || (state.flag.flag.defined() && is_raised(state.flag));
}

}  // namespace mezzo::amp
