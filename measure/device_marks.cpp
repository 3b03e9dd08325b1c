#include "device_marks.h"

#include <exception>
#include <string>

#include "../tensor/core/error.h"
#include "../tensor/device/backend.h"
#include "../tensor/text/text.h"

namespace mezzo::detail {

DeviceMarks::DeviceMarks(Device device) : device_(device) {
  if (device == cpu) return;
  const Backend& backend = require_cuda("Profiler", str(device));
  if (device.index < 0 || device.index >= backend.device_count())
    fail<DeviceError>("Profiler", {.what = "no such device",
                                   .got = str(device),
                                   .expected = str("an index below ", backend.device_count())});
  queues_ = &backend.queues();
  if (!place())
    fail<StateError>("Profiler", {.what = "the device cannot be timed now",
                                  .got = str(device),
                                  .expected = "a device that works, outside of a captured step"});
}

DeviceMarks::~DeviceMarks() {
  for (const QueueMark mark : marks_)
    if (mark) queues_->drop_mark(mark);
}

QueueMark DeviceMarks::place() noexcept {
  if (!queues_) return nullptr;
  try {
    const DeviceQueue queue = queues_->current(device_);
    if (queues_->is_recorded(device_, queue)) return nullptr;
    marks_.push_back(nullptr);
    marks_.back() = queues_->make_mark(device_, true);
    queues_->place(marks_.back(), device_, queue);
    return marks_.back();
  } catch (const std::exception&) {  // the op reports the failure of the device
    return nullptr;
  }
}

double DeviceMarks::seconds(QueueMark begin, QueueMark end) const {
  for (const QueueMark mark : {begin, end})
    if (!queues_->reached(mark)) queues_->wait_for(mark);
  return static_cast<double>(queues_->between(begin, end)) * 1e-3;
}

}  // namespace mezzo::detail
