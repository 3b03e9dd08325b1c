// CudaQueues: the streams of all devices, each thread's current stream, and events.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "../../tensor/device/queues.h"
#include "runtime.h"

namespace mezzo::gpu {

class CudaQueues final : public Queues {
 public:
  static constexpr int kMostDevices = 64;   // further devices are ignored
  static constexpr std::size_t kSide = 32;  // side streams of each priority

  explicit CudaQueues(int devices);

  DeviceQueue current(Device device) const override;
  void set_current(Device device, DeviceQueue queue) const noexcept override;
  DeviceQueue next_side(Device device, bool urgent) const override;
  void* handle(Device device, DeviceQueue queue) const override { return stream(device, queue); }
  /** Returns false while the queue is being recorded, because a query would invalidate the
   *  capture. */
  bool is_idle(Device device, DeviceQueue queue) const override;
  void synchronize(Device device, DeviceQueue queue) const override;
  void synchronize(Device device) const override;
  QueueMark make_mark(Device device, bool timed) const override;
  void drop_mark(QueueMark mark) const noexcept override { runtime::destroy_event(mark); }
  void place(QueueMark mark, Device device, DeviceQueue queue) const override;
  void hold(Device device, DeviceQueue queue, QueueMark mark) const override;
  bool reached(QueueMark mark) const override { return runtime::reached(mark); }
  void wait_for(QueueMark mark) const override { runtime::synchronize_event(mark); }
  float between(QueueMark begin, QueueMark end) const override {
    return runtime::elapsed(begin, end);
  }
  bool is_recorded(Device device, DeviceQueue queue) const override;

  /** Waits until all work of the queue is done. Returns false, without waiting, if the queue is
   *  being recorded. Does not raise index errors. Errors: CudaError. */
  bool try_synchronize(Device device, DeviceQueue queue) const;
  /** Returns the stream of a queue and makes `device` this thread's current device. */
  runtime::Stream stream(Device device, DeviceQueue queue) const;
  /** Marks the stream as recorded by this thread until end_recording(). Errors: StateError where
   *  another thread records work of the device. */
  void begin_recording(Device device, runtime::Stream stream) const;
  void end_recording(Device device) const noexcept;
  /** Checks that no other thread records this queue; work enqueued by this thread would become part
   *  of that recording. Errors: StateError. */
  void require_unrecorded_elsewhere(Device device, DeviceQueue queue) const;

 private:
  /** Streams are created at first use and never destroyed, because cached memory refers to them. */
  struct PerDevice {
    std::mutex mutex;
    std::atomic<runtime::Stream> main{nullptr};
    std::array<std::array<runtime::Stream, kSide>, 2> side{};
    std::array<std::size_t, 2> next{};
    std::atomic<runtime::Stream> recorded{nullptr};
    // Locked shared while a stream is queried, waited for or marked, and exclusively where a
    // capture begins: an operation that found the stream unrecorded finishes before recording
    // begins.
    std::shared_mutex capture_begin;
  };
  PerDevice& of(Device device) const { return *devices_[static_cast<std::size_t>(device.index)]; }
  runtime::Stream main(Device device) const;
  /** Waits for all streams of the device. Errors: StateError where another thread records work of
   *  the device. */
  void synchronize_all(Device device) const;

  std::vector<std::unique_ptr<PerDevice>> devices_;
};

}  // namespace mezzo::gpu
