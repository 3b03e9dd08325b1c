#include "loss_scaler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "../../autograd/ops/operators.h"
#include "../../optim/device_step_state.h"
#include "../../tensor/memory/transfer.h"
#include "../../tensor/text/text.h"
#include "scale_call.h"

namespace mezzo::amp {

std::string_view name(ScaleReason reason) {
  constexpr std::array<std::string_view, 4> names{"overflow", "growth", "set", "restored"};
  return names[static_cast<std::size_t>(reason)];
}

std::string ScaleEvent::text() const {
  return str("step ", step, ": ", old_scale, " -> ", new_scale, " (", name(reason),
             first_nonfinite.empty() ? "" : ", ", first_nonfinite, ")");
}

OverflowFlag pointers_of(const optim::FoundInf& found) {
  if (!found.flag.defined()) return {};
  return {found.flag.data<float>(), static_cast<ScaleState::Word*>(found.first.raw_data())};
}

void add_step(ScaleCall& call, Device device, optim::DeviceStepState& steps) {
  if (steps.device() != device) return steps.flush();
  if (const auto count = steps.take_pending()) call.step = *count;
}

ScaleKernel& scale_kernel(DeviceKind kind) {
  static std::array<ScaleKernel, kNumDeviceKinds> kernels{[](const ScaleCall& call, Device) {
    call.step.run(0, 1);
    call.update();
  }};
  return kernels[static_cast<std::size_t>(kind)];
}

// ---- the state ----------------------------------------------------------------------------------

/** The state of a scaler, shared with the graphs of captured steps, which upload the host's changes
 *  before each replay. */
class LossScaler::State final : public CaptureParticipant {
 public:
  State(const ScaleRule& which, const ScaleState& initial) : rule(which), state(initial) {}

  ScaleRule rule;
  ScaleState state;         // on the CPU the scale itself, else the host's copy
  Device device = cpu;      // of the scale
  Tensor memory;            // a ScaleState on the device
  Tensor scale32, scale64;  // the scale on the device, for ops and kernels
  bool sent = false;        // the device's state is as new as the host's, or newer
  bool ahead = false;       // the device's state is newer
  optim::FoundInf pending;  // the flag of a check that is not completed yet
  std::int64_t version = 0;
  int open_scopes = 0;
  std::vector<ScaleEvent> events;
  std::string origin;  // of the next overflow; empty in one process
  std::function<std::string(const optim::NonfiniteLocation&)> namer;
  std::function<void()> abandoned;

  void note(double former, ScaleReason reason, std::string first_nonfinite = {}) {
    if (events.size() == kEvents) events.erase(events.begin());
    events.push_back({state.checks, former, state.scale, reason, std::move(first_nonfinite)});
  }
  /** Adds an event if the state has changed since `former`. */
  void note_change(const ScaleState& former, std::string first_nonfinite = {}) {
    if (state.overflows != former.overflows)
      note(former.scale, ScaleReason::overflow,
           first_nonfinite.empty() ? named() : std::move(first_nonfinite));
    else if (state.scale != former.scale)
      note(former.scale, ScaleReason::growth);
  }
  /** Sets the host's state. */
  void set(const ScaleState& changed) {
    state = changed;
    sent = false;
    ++version;
  }

  /** Copies the device's state to the host if that is newer. Waits for the device. */
  void sync_to_host() {
    if (!ahead) return;
    events.reserve(kEvents);
    const ScaleState former = state;
    download(memory, &state, sizeof state);
    ahead = false;
    note_change(former);
  }
  void send() {
    if (sent) return;
    const auto narrow = static_cast<float>(state.scale);
    upload(memory, &state, sizeof state);
    upload(scale32, &narrow, sizeof narrow);
    upload(scale64, &state.scale, sizeof state.scale);
    sent = true;
  }
  void move_to(Device to) {
    if (to == device) return;
    sync_to_host();
    if (to != cpu) {
      const Tensor record = record_tensor<ScaleState>(1, to);
      allocate_scales(to);
      memory = record;
    }
    device = to;
    sent = false;
  }
  void allocate_scales(Device to) {
    const NoCapturePool lasting;
    const Tensor narrow = empty_tensor({}, DType::f32, to), wide = empty_tensor({}, DType::f64, to);
    scale32 = narrow;
    scale64 = wide;
  }

  void before_replay() override { send(); }
  void after_replay() override {
    ahead = true;
    ++version;
  }
  void abandon_capture() noexcept override {
    pending = {};
    if (abandoned) abandoned();
  }

 private:
  /** Describes the gradient of the latest overflow; never throws. */
  std::string named() const noexcept {
    try {
      if (namer && state.first_nonfinite != ScaleState::kNone)
        return namer(optim::NonfiniteLocation::of(state.first_nonfinite)) + origin;
    } catch (...) {}
    return {};
  }
};

// ---- construction -------------------------------------------------------------------------------

namespace {

ScaleRule rule_of(const Properties& properties) {
  return {.growth = LossScaler::kFactor,
          .backoff = 1 / LossScaler::kFactor,
          .least = properties.min_loss_scale.value_or(kScaleFloor),
          .most = properties.max_loss_scale,
          .window = LossScaler::kWindow,
          .dynamic = properties.dynamic()};
}

double initial_scale(const Properties& properties) {
  if (!properties.dynamic()) return properties.loss_scale;
  return std::max(std::min(properties.max_loss_scale, LossScaler::kInitialScale),
                  properties.min_loss_scale.value_or(0));
}

}  // namespace

LossScaler::LossScaler(const Properties& properties)
    : LossScaler(rule_of(properties), ScaleState{.scale = initial_scale(properties)}) {}

LossScaler::LossScaler(const ScaleRule& rule, const ScaleState& state)
    : state_(std::make_shared<State>(rule, state)) {}

LossScaler::LossScaler(const LossScaler& other) : LossScaler(other.state_->rule, other.state()) {
  state_->events = other.state_->events;
}

LossScaler& LossScaler::operator=(const LossScaler& other) {
  if (this == &other) return *this;
  const ScaleState changed = other.state();
  std::vector<ScaleEvent> events = other.state_->events;
  (void)state();
  state_->set(changed);
  state_->rule = other.state_->rule;
  state_->events = std::move(events);
  return *this;
}

LossScaler::~LossScaler() { set_owner(nullptr, nullptr); }

// ---- for users ----------------------------------------------------------------------------------

const ScaleState& LossScaler::state() const {
  if (state_->pending.flag.defined()) {
    auto& self = const_cast<LossScaler&>(*this);
    self.run(self.take_pending());
  }
  state_->sync_to_host();
  return state_->state;
}

double LossScaler::loss_scale() const { return dynamic() ? state().scale : state_->state.scale; }
std::int64_t LossScaler::unskipped() const { return state().unskipped; }
bool LossScaler::dynamic() const { return state_->rule.dynamic; }
Device LossScaler::device() const { return state_->device; }
void LossScaler::make_room() const { state_->events.reserve(kEvents); }
void LossScaler::set_rule(const ScaleRule& rule) { state_->rule = rule; }

std::vector<ScaleEvent> LossScaler::events() const {
  (void)state();
  return state_->events;
}

void LossScaler::change(const ScaleState& changed, ScaleReason reason) {
  const bool is_scale = std::isfinite(changed.scale) && changed.scale > 0;
  if (!is_scale || changed.unskipped < 0)
    fail<ValueError>("loss scaler",
                     {.what = is_scale ? "the counter must be non-negative"
                                       : "the loss scale must be finite and positive",
                      .got = is_scale ? str(changed.unskipped) : str(changed.scale)});
  make_room();
  const double former = state().scale;
  state_->set(changed);
  state_->note(former, reason);
}

void LossScaler::set_loss_scale(double scale) {
  ScaleState changed = state();
  changed.scale = scale;
  change(changed, ScaleReason::set);
}

void LossScaler::restore(double scale, std::int64_t unskipped) {
  ScaleState changed = state();
  changed.scale = scale;
  changed.unskipped = unskipped;
  change(changed, ScaleReason::restored);
}

bool LossScaler::update(bool overflow, std::string first_nonfinite) {
  make_room();
  const ScaleState former = state();
  ScaleState changed = former;
  ScaleCall{
      .state = &changed, .rule = state_->rule, .found = overflow, .any = true, .completes = true}
      .update();
  state_->set(changed);
  state_->note_change(former, std::move(first_nonfinite));
  return dynamic() && overflow;
}

// ---- for scale_loss and GradScaler --------------------------------------------------------------

void LossScaler::set_overflow_origin(std::string origin) { state_->origin = std::move(origin); }

void LossScaler::set_owner(std::function<std::string(const optim::NonfiniteLocation&)> namer,
                           std::function<void()> abandoned) {
  state_->namer = std::move(namer);
  state_->abandoned = std::move(abandoned);
}

ScaleCall LossScaler::call(Device device) {
  State& s = *state_;
  if (s.pending.flag.defined()) run(take_pending());
  s.move_to(device);
  if (device == cpu) return {.state = &s.state, .rule = s.rule};
  if (Capture* capture = Capture::current())
    capture->join(state_);
  else
    s.send();
  return {.state = static_cast<ScaleState*>(s.memory.raw_data()),
          .scale32 = s.scale32.data<float>(),
          .scale64 = s.scale64.data<double>(),
          .rule = s.rule};
}

void LossScaler::run(const ScaleCall& given) {
  ScaleCall call = given;
  State& s = *state_;
  s.version += call.completes ? 1 : 0;
  if (s.device == cpu) {
    const ScaleState former = s.state;
    scale_kernel(DeviceKind::cpu)(call, cpu);
    return s.note_change(former);
  }
  if (call.completes && s.open_scopes > 0) {
    if (Capture::current())
      fail<Unsupported>(
          "amp::scale_loss",
          {.what = "scopes of one loss scaler are nested while a step is being captured",
           .hint = "close one before the next begins, or give them loss_ids of their own"});
    s.allocate_scales(s.device);
    call.scale32 = s.scale32.data<float>();
    call.scale64 = s.scale64.data<double>();
  }
  scale_kernel(s.device.kind)(call, s.device);
  if (!Capture::current()) s.ahead = true;
}

void LossScaler::defer(const optim::FoundInf& found) {
  state_->pending = found;
  if (state_->device == cpu) run(take_pending());
}

ScaleCall LossScaler::take_pending() {
  const optim::FoundInf found = std::exchange(state_->pending, {});
  ScaleCall next = call(state_->device);
  next.noted = pointers_of(found);
  next.any = next.completes = found.flag.defined();
  return next;
}

ScaleValue LossScaler::on(Device device) {
  if (device == cpu || !dynamic()) return {.on_host = loss_scale(), .version = state_->version};
  (void)call(device);
  return {.on_device = state_->scale64, .version = state_->version};
}

Tensor LossScaler::times(const Tensor& x) {
  const Tensor wide = is_low(x.dtype()) ? x.to(f32) : x;
  if (!on(x.device()).on_device.defined()) return wide * loss_scale();
  return wide * (wide.dtype() == DType::f64 ? state_->scale64 : state_->scale32);
}

void LossScaler::open_scope() { ++state_->open_scopes; }
void LossScaler::close_scope() { --state_->open_scopes; }

}  // namespace mezzo::amp
