#include "device_scale.h"

#include <utility>

#include "../../autograd/ops/create.h"

namespace mezzo::amp {

namespace {

/** Allocates a 0-dim tensor that captured steps do not reuse. */
Tensor lasting_number(DType dtype, Device device) {
  const NoCapturePool lasting;
  return empty_tensor({}, dtype, device);
}

}  // namespace

DeviceScale::DeviceScale(Device device)
    : cell_(record_tensor<ScaleCell>(1, device)),
      scale32_(lasting_number(DType::f32, device)),
      scale64_(lasting_number(DType::f64, device)) {}

FoundInf lowered_flag(Device device) {
  const NoCapturePool lasting;
  return {.flag = zeros({}, {.dtype = DType::f32, .device = device}),
          .first = full({}, -1, {.dtype = DType::i64, .device = device})};
}

bool is_raised(const FoundInf& found) {
  float flag = 0;
  download(found.flag, &flag, sizeof flag);
  return flag != 0;
}

void lower(const FoundInf& found) {
  found.flag.zero_();
  found.first.fill_(-1);
}

optim::OverflowFlag of_device(const FoundInf& found) {
  if (!found.flag.defined()) return {};
  return {found.flag.data<float>(),
          static_cast<optim::NonfiniteLocation::Word*>(found.first.raw_data())};
}

void DeviceScale::send(const ScaleCell& cell) {
  const auto narrow = static_cast<float>(cell.state.scale);
  upload(cell_, &cell, sizeof cell);
  upload(scale32_, &narrow, sizeof narrow);
  upload(scale64_, &cell.state.scale, sizeof cell.state.scale);
}

ScaleCell DeviceScale::read() const {
  ScaleCell cell;
  download(cell_, &cell, sizeof cell);
  return cell;
}

ScaleCall DeviceScale::call(const ScaleRule& rule) const {
  return {.cell = static_cast<ScaleCell*>(cell_.raw_data()),
          .scale32 = scale32_.data<float>(),
          .scale64 = scale64_.data<double>(),
          .rule = rule};
}

// ---- host and device ----------------------------------------------------------------------------

/** The state of a ScaleStore, shared with the graphs of captured steps. They upload the host's
 *  changes before each replay. */
class ScaleStore::SharedScale final : public CaptureParticipant {
 public:
  explicit SharedScale(const ScaleState& initial) : cell{.state = initial} {}

  ScaleCell cell;
  std::optional<DeviceScale> device;
  std::optional<ScaleChanges> changes;  // for take_changes()
  bool sent = false;                    // the device's state is as new as the host's, or newer
  bool ahead = false;                   // the device's state is newer

  void sync_to_host() {
    if (!ahead) return;
    const ScaleCell now = device->read();
    if (!changes) changes = ScaleChanges{.former = cell.state.scale};
    changes->now = now.state.scale;
    changes->checks += now.moves - cell.moves;
    if (now.overflows != cell.overflows) {
      changes->overflowed = true;
      changes->first_nonfinite = now.first_nonfinite;
    }
    cell = now;
    ahead = false;
  }
  void send() {
    if (!sent) device->send(cell);
    sent = true;
  }
  void before_replay() override { send(); }
  void after_replay() override { ahead = true; }
};

ScaleStore::ScaleStore(const ScaleState& state) : shared_(std::make_shared<SharedScale>(state)) {}
ScaleStore::~ScaleStore() = default;
ScaleStore::ScaleStore(const ScaleStore& other) : ScaleStore(other.state()) {}
ScaleStore& ScaleStore::operator=(const ScaleStore& other) {
  if (this != &other) change() = other.state();
  return *this;
}

const ScaleState& ScaleStore::state() const {
  shared_->sync_to_host();
  return shared_->cell.state;
}

ScaleState& ScaleStore::change() {
  shared_->sync_to_host();
  shared_->sent = false;
  return shared_->cell.state;
}

std::optional<ScaleChanges> ScaleStore::take_changes() const {
  shared_->sync_to_host();
  return std::exchange(shared_->changes, std::nullopt);
}

bool ScaleStore::is_ahead() const { return shared_->ahead; }

const DeviceScale& ScaleStore::on(Device device) {
  if (!shared_->device || shared_->device->device() != device) {
    shared_->sync_to_host();
    shared_->device.emplace(device);
    shared_->sent = false;
  }
  if (Capture* capture = Capture::current())
    capture->join(shared_);
  else
    shared_->send();
  return *shared_->device;
}

void ScaleStore::run(const ScaleCall& call) {
  shared_->device->run(call);
  if (!Capture::current()) shared_->ahead = true;
}

}  // namespace mezzo::amp
