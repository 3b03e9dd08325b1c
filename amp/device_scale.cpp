#include "device_scale.h"

#include <utility>

#include "../autograd/ops/create.h"

namespace mezzo::amp {

namespace {

Tensor lasting_number(DType dtype, Device device) {
  const LastingMemory lasting;
  return empty_tensor({}, dtype, device);
}

}  // namespace

DeviceScale::DeviceScale(Device device)
    : cell_(record_tensor<ScaleCell>(1, device)),
      scale32_(lasting_number(DType::f32, device)),
      scale64_(lasting_number(DType::f64, device)) {}

FoundInf lowered_flag(Device device) {
  const LastingMemory lasting;
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
  return {found.flag.data<float>(), static_cast<optim::BadValue::Word*>(found.first.raw_data())};
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

// ---- host and device ------------------------------------------------------------------------------------------------------

/** Shared with the graphs of captured steps, which send what the host has changed before they run. */
class KeptScale::Home final : public CaptureGuest {
 public:
  explicit Home(const ScaleState& initial) : cell{.state = initial} {}

  ScaleCell cell;
  std::optional<DeviceScale> device;
  std::optional<ScaleNews> news;  // that nobody has taken
  bool sent = false;              // the device has what the host has, or more
  bool ahead = false;             // more

  void settle() {
    if (!ahead) return;
    const ScaleCell now = device->read();
    if (!news) news = ScaleNews{.former = cell.state.scale};
    news->now = now.state.scale;
    news->checks += now.moves - cell.moves;
    if (now.overflows != cell.overflows) {
      news->overflowed = true;
      news->culprit = now.culprit;
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

KeptScale::KeptScale(const ScaleState& state) : home_(std::make_shared<Home>(state)) {}
KeptScale::~KeptScale() = default;
KeptScale::KeptScale(const KeptScale& other) : KeptScale(other.state()) {}
KeptScale& KeptScale::operator=(const KeptScale& other) {
  if (this != &other) change() = other.state();
  return *this;
}

const ScaleState& KeptScale::state() const {
  home_->settle();
  return home_->cell.state;
}

ScaleState& KeptScale::change() {
  home_->settle();
  home_->sent = false;
  return home_->cell.state;
}

std::optional<ScaleNews> KeptScale::take_news() const {
  home_->settle();
  return std::exchange(home_->news, std::nullopt);
}

bool KeptScale::is_ahead() const { return home_->ahead; }

const DeviceScale& KeptScale::on(Device device) {
  if (!home_->device || home_->device->device() != device) {
    home_->settle();
    home_->device.emplace(device);
    home_->sent = false;
  }
  if (Capture* capture = Capture::current())
    capture->join(home_);
  else
    home_->send();
  return *home_->device;
}

void KeptScale::run(const ScaleCall& call) {
  home_->device->run(call);
  if (!Capture::current()) home_->ahead = true;
}

}  // namespace mezzo::amp
