// DeviceMarks: timed marks in the queue of a device, for a Profiler.
#pragma once

#include <vector>

#include "../tensor/device/queues.h"

namespace mezzo::detail {

/** Places marks in this thread's queue of a device, and returns when the device passed them. */
class DeviceMarks {
 public:
  /** Places the mark from which times are counted. On the CPU there are no marks. Errors:
   *  DeviceError, CudaError. */
  explicit DeviceMarks(Device device);
  ~DeviceMarks();
  DeviceMarks(const DeviceMarks&) = delete;
  DeviceMarks& operator=(const DeviceMarks&) = delete;

  Device device() const { return device_; }
  bool timed() const { return queues_ != nullptr; }
  /** Returns a new mark after the queue's work so far; null on the CPU, while a step is captured,
   *  and after an error of the device. */
  QueueMark place() noexcept;
  /** Returns the seconds from a mark to a later one. Waits for the device. Errors: CudaError. */
  double seconds(QueueMark begin, QueueMark end) const;
  /** Returns the mark that the constructor placed; null on the CPU. */
  QueueMark first() const { return marks_.empty() ? nullptr : marks_[0]; }

 private:
  Device device_;
  const Queues* queues_ = nullptr;
  std::vector<QueueMark> marks_;
};

}  // namespace mezzo::detail
