// Steps of a GradScaler that nobody waits for: what is found, and what becomes of the scale, stays on the device until somebody asks.
#include <unordered_set>

#include "../autograd/ops/create.h"
#include "grad_scaler_parts.h"
#include "nonfinite_gradient.h"

namespace mezzo::amp {

using optim::Optimizer;
using optim::StepResult;

/** Looks after the optimizers that captured steps update. */
class GradScaler::Guest final : public CaptureGuest {
 public:
  explicit Guest(GradScaler& scaler) : scaler_(&scaler) {}
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
  if (guest_) guest_->leave();
}

void GradScaler::join_capture() {
  Capture* capture = Capture::current();
  if (!capture) return;
  if (!guest_) guest_ = std::make_shared<Guest>(*this);
  capture->join(guest_);
}

const GradScaler::Flagged& GradScaler::flag_for(const Optimizer& optimizer, Device device) {
  Flagged& flagged = flags_[&optimizer];
  if (!flagged.flag.flag.defined() || flagged.flag.flag.device() != device) {
    flagged = {lowered_flag(device), flagged_.size()};
    flagged_.push_back(optimizer.clock().shared_from_this());
  }
  return flagged;
}

/** What the device knows alone becomes the host's. */
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
    // Made in a captured step, the flag would be cleared at every replay.
    if (defers_ && !Capture::current()) flag_for(optimizer, gradients[0].device());
    return;
  }
  const Device device = gradients_of(optimizer)[0].device();
  Entry entry(*this, optimizer);
  (void)watches_[&optimizer];  // memory for all that follows the step
  defers_ = true;
  optim::Deferral deferral{.skip_limit = options_.max_consecutive_skips};
  if (state.stage == Stage::ready && optimizer.unscales_itself()) {
    look_through(optimizer, state);
    deferral.scale = kept_.on(device).scale(f64).data<double>();
  } else if (state.stage == Stage::ready) {
    unscale(optimizer, state);
    state.stage = Stage::unscaled;
    entry.set(state);
  }
  join_capture();
  if (!state.flag.flag.defined()) {  // unscale_ has told the host
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
    guest_->optimizers.insert(&optimizer);
  else
    watch(optimizer);
}

void GradScaler::watch(Optimizer& optimizer) {
  watches_[&optimizer].tick(optimizer, std::string(optimizer.type_name()), [this] { return scale_number(); });
}

StepResult GradScaler::last_verdict(Optimizer& optimizer) {
  if (options_.enabled)
    watches_[&optimizer].look(optimizer, std::string(optimizer.type_name()),
                              [this] { return scale_number(); });
  return optimizer.last_result();
}

/** One launch for each optimizer; the last one moves the scale. */
void GradScaler::update_on_device() {
  std::optional<Device> device;
  for (const auto& [optimizer, state] : optimizers_)
    if (state.flag.flag.defined()) device = state.flag.flag.device();
  for (const auto& [optimizer, flagged] : flags_)
    if (!device) device = flagged.flag.flag.device();
  const DeviceScale& scale = kept_.on(device.value_or(cpu));
  std::size_t left = optimizers_.size();
  for (auto& [optimizer, state] : optimizers_) {
    ScaleCall call = scale.call(rule());
    if (state.clock)
      if (const auto owed = state.clock->take_owed()) call.clock = *owed;
    call.noted = call.lowered = of_device(state.flag);
    call.found = state.found_inf;
    call.any = state.had_gradients;
    call.moves = --left == 0;
    kept_.run(call);
  }
}

/** The host looks at the scale: what it has not seen becomes one event. */
void GradScaler::note_seen() const {
  history_.make_room();
  const std::optional<ScaleNews> news = kept_.take_news();
  if (!news) return;
  if (news->overflowed)
    history_.note(news->former, news->now, ScaleReason::overflow, culprit_of(*news));
  else if (news->now != news->former)
    history_.note(news->former, news->now, ScaleReason::growth);
}

std::string GradScaler::culprit_of(const ScaleNews& news) const {
  if (news.culprit == optim::BadValue::kNone) return host_culprit_;
  const auto noted = optim::BadValue::of(news.culprit);
  const std::size_t number = optimizer_of(noted);
  const Optimizer* optimizer = number < flagged_.size() ? flagged_[number]->owner() : nullptr;
  return optimizer ? nonfinite_gradient_text(*optimizer, noted) : "";
}

double GradScaler::get_scale() const {
  if (!options_.enabled) return 1;
  if (Capture::current())
    fail<StateError>("GradScaler.get_scale", {.what = "the scale is read while a step is being captured",
                                              .hint = "read it after a replay"});
  note_seen();
  return scale_number();
}

std::vector<ScaleEvent> GradScaler::events() const {
  note_seen();
  return history_.events();
}

bool GradScaler::found_inf(const Optimizer& optimizer) const {
  const auto found = optimizers_.find(&optimizer);
  if (found == optimizers_.end()) return false;
  const PerOptimizer& state = found->second;
  return state.found_inf || (state.flag.flag.defined() && is_raised(state.flag));
}

}  // namespace mezzo::amp
