#include "loss_scaler.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "../../tensor/device/capture.h"
#include "../../tensor/memory/transfer.h"
#include "../../tensor/text/text.h"
#include "scale_call.h"

namespace mezzo::amp {

std::string_view name(ScaleReason reason) {
  switch (reason) {
    case ScaleReason::overflow: return "overflow";
    case ScaleReason::growth: return "growth";
    case ScaleReason::set: return "set";
    case ScaleReason::restored: break;
  }
  return "restored";
}

std::string ScaleEvent::text() const {
  return str("step ", step, ": ", old_scale, " -> ", new_scale, " (", name(reason),
             first_nonfinite.empty() ? "" : ", ", first_nonfinite, ")");
}

OverflowFlag pointers_of(const optim::FoundInf& found) {
  if (!found.flag.defined()) return {};
  return {found.flag.data<float>(), static_cast<ScaleCell::Word*>(found.first.raw_data())};
}

// ---- the state ----------------------------------------------------------------------------------

/** The state of a scaler, shared with the graphs of captured steps, which upload the host's changes
 *  before each replay. */
class LossScaler::State final : public CaptureParticipant {
 public:
  State(const ScaleRule& which, const ScaleState& initial) : rule(which), cell{.state = initial} {}

  ScaleRule rule;
  ScaleCell cell;           // on the CPU the scale itself, else the host's copy
  Device device = cpu;      // of the scale
  Tensor memory;            // a ScaleCell on the device
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

  void make_room() { events.reserve(kEvents); }
  void note(double former, ScaleReason reason, std::string first_nonfinite = {}) {
    if (events.size() == kEvents) events.erase(events.begin());
    events.push_back({cell.checks, former, cell.state.scale, reason, std::move(first_nonfinite)});
  }
  /** Adds an event if the cell has changed since `former`. */
  void note_change(const ScaleCell& former, const std::string* first_nonfinite = nullptr) {
    if (cell.overflows != former.overflows)
      note(former.state.scale, ScaleReason::overflow, first_nonfinite ? *first_nonfinite : named());
    else if (cell.state.scale != former.state.scale)
      note(former.state.scale, ScaleReason::growth);
  }

  /** Copies the device's state to the host if that is newer. Waits for the device. */
  void sync_to_host() {
    if (!ahead) return;
    make_room();
    const ScaleCell former = cell;
    download(memory, &cell, sizeof cell);
    ahead = false;
    note_change(former);
  }
  void send() {
    if (!std::exchange(sent, true)) upload_cell();
  }
  void move_to(Device to) {
    if (to == device) return;
    sync_to_host();
    if (to != cpu) allocate(to);
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
  void allocate(Device to) {
    const Tensor cells = record_tensor<ScaleCell>(1, to);
    allocate_scales(to);
    memory = cells;
  }
  void upload_cell() {
    const auto narrow = static_cast<float>(cell.state.scale);
    upload(memory, &cell, sizeof cell);
    upload(scale32, &narrow, sizeof narrow);
    upload(scale64, &cell.state.scale, sizeof cell.state.scale);
  }
  /** Describes the gradient of the latest overflow; never throws. */
  std::string named() const noexcept {
    try {
      if (namer && cell.first_nonfinite != optim::NonfiniteLocation::kNone)
        return namer(optim::NonfiniteLocation::of(cell.first_nonfinite)) + origin;
    } catch (...) {}
    return {};
  }
};

LossScaler::LossScaler(const ScaleRule& rule, const ScaleState& state)
    : state_(std::make_shared<State>(rule, state)) {}

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

LossScaler::LossScaler(const LossScaler& other) : LossScaler(other.state_->rule, other.state()) {
  state_->cell.checks = other.state_->cell.checks;
  state_->events = other.state_->events;
}

LossScaler& LossScaler::operator=(const LossScaler& other) {
  if (this == &other) return *this;
  const ScaleState changed = other.state();
  std::vector<ScaleEvent> events = other.state_->events;
  (void)state();
  state_->cell.state = changed;
  state_->cell.checks = other.state_->cell.checks;
  state_->sent = false;
  ++state_->version;
  state_->rule = other.state_->rule;
  state_->events = std::move(events);
  return *this;
}

LossScaler::~LossScaler() {
  state_->namer = nullptr;
  state_->abandoned = nullptr;
}

// ---- for users ----------------------------------------------------------------------------------

const ScaleState& LossScaler::state() const {
  if (state_->pending.flag.defined()) {
    auto& self = const_cast<LossScaler&>(*this);
    self.run(self.take_pending());
  }
  state_->sync_to_host();
  return state_->cell.state;
}

double LossScaler::loss_scale() const {
  return dynamic() ? state().scale : state_->cell.state.scale;
}

std::int64_t LossScaler::unskipped() const { return state().unskipped; }
bool LossScaler::dynamic() const { return state_->rule.dynamic; }
Device LossScaler::device() const { return state_->device; }
std::int64_t LossScaler::version() const { return state_->version; }
void LossScaler::make_room() const { state_->make_room(); }
void LossScaler::set_rule(const ScaleRule& rule) { state_->rule = rule; }

void LossScaler::check(double scale, std::int64_t unskipped) {
  if (!std::isfinite(scale) || scale <= 0)
    fail<ValueError>("loss scaler",
                     {.what = "the loss scale must be finite and positive", .got = str(scale)});
  if (unskipped < 0)
    fail<ValueError>("loss scaler",
                     {.what = "the counter must be non-negative", .got = str(unskipped)});
}

void LossScaler::change(const ScaleState& changed, ScaleReason reason, bool counts) {
  make_room();
  const double former = state().scale;
  State& s = *state_;
  s.cell.state = changed;
  if (counts) ++s.cell.checks;
  ++s.version;
  s.sent = false;
  s.note(former, reason);
}

void LossScaler::set_loss_scale(double scale) {
  check(scale, 0);
  ScaleState changed = state();
  changed.scale = scale;
  change(changed, ScaleReason::set, false);
}

void LossScaler::restore(double scale, std::int64_t unskipped) {
  check(scale, unskipped);
  ScaleState changed = state();
  changed.scale = scale;
  changed.unskipped = unskipped;
  change(changed, ScaleReason::restored, false);
}

bool LossScaler::update(bool overflow, std::string first_nonfinite) {
  make_room();
  (void)state();
  State& s = *state_;
  const ScaleCell former = s.cell;
  float narrow = 0;
  double wide = 0;
  ScaleCall{.cell = &s.cell,
            .scale32 = &narrow,
            .scale64 = &wide,
            .rule = s.rule,
            .found = overflow,
            .any = true,
            .completes = true}
      .run_cell();
  ++s.version;
  s.sent = false;
  s.note_change(former, &first_nonfinite);
  return dynamic() && overflow;
}

std::vector<ScaleEvent> LossScaler::events() const {
  (void)state();
  return state_->events;
}

// ---- for scale_loss and GradScaler --------------------------------------------------------------

std::int64_t LossScaler::checks() const {
  (void)state();
  return state_->cell.checks;
}

void LossScaler::set_overflow_origin(std::string origin) { state_->origin = std::move(origin); }

void LossScaler::set_gradient_namer(
    std::function<std::string(const optim::NonfiniteLocation&)> namer) {
  state_->namer = std::move(namer);
}

void LossScaler::set_abandoned(std::function<void()> abandoned) {
  state_->abandoned = std::move(abandoned);
}

ScaleCall LossScaler::call(Device device) {
  State& s = *state_;
  if (s.pending.flag.defined()) run(take_pending());
  s.move_to(device);
  ScaleCall call{.rule = s.rule};
  if (device == cpu) {
    call.cell = &s.cell;
    return call;
  }
  if (Capture* capture = Capture::current())
    capture->join(state_);
  else
    s.send();
  call.cell = static_cast<ScaleCell*>(s.memory.raw_data());
  call.scale32 = s.scale32.data<float>();
  call.scale64 = s.scale64.data<double>();
  return call;
}

void LossScaler::run(const ScaleCall& given) {
  ScaleCall call = given;
  State& s = *state_;
  s.version += call.completes ? 1 : 0;
  if (s.device == cpu) {
    float narrow = 0;
    double wide = 0;
    call.scale32 = &narrow;
    call.scale64 = &wide;
    const ScaleCell former = s.cell;
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
  if (!found.flag.defined()) return next;
  next.noted = pointers_of(found);
  next.any = next.completes = true;
  return next;
}

Tensor LossScaler::on(Device device, DType dtype) {
  (void)call(device);
  return dtype == DType::f64 ? state_->scale64 : state_->scale32;
}

optim::Factor LossScaler::inverse(Device device) {
  if (!lives_on(device)) return 1 / loss_scale();
  return optim::Factor::over(1, on(device, DType::f64).data<double>());
}

void LossScaler::open_scope() { ++state_->open_scopes; }
void LossScaler::close_scope() { --state_->open_scopes; }

}  // namespace mezzo::amp
