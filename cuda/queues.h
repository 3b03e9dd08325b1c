// CudaQueues: the streams of all devices, which of them each thread works in, and events in them.
// Sees: ../tensor/queues.h, runtime.h.
// Read next: queues.cpp, device.h (current_stream), stream.h (what users see).
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "../tensor/queues.h"
#include "runtime.h"

namespace mezzo::gpu {

class CudaQueues final : public Queues {
 public:
  static constexpr int kMostDevices = 64;   // more than any machine has, and an index can name as many
  static constexpr std::size_t kSide = 32;  // side streams of each priority

  explicit CudaQueues(int devices);

  Queue current(Device device) const override;
  void set_current(Device device, Queue queue) const noexcept override;
  Queue next_side(Device device, bool urgent) const override;
  void* handle(Device device, Queue queue) const override { return stream(device, queue); }
  /** False while the queue is being recorded: a query would invalidate the capture. */
  bool is_idle(Device device, Queue queue) const override;
  void synchronize(Device device, Queue queue) const override;
  void synchronize(Device device) const override;
  Mark make_mark(Device device, bool timed) const override;
  void drop_mark(Mark mark) const noexcept override { runtime::destroy_event(mark); }
  void place(Mark mark, Device device, Queue queue) const override;
  void hold(Device device, Queue queue, Mark mark) const override;
  bool reached(Mark mark) const override { return runtime::reached(mark); }
  void wait_for(Mark mark) const override { runtime::synchronize_event(mark); }
  float between(Mark begin, Mark end) const override { return runtime::elapsed(begin, end); }
  bool is_recorded(Device device, Queue queue) const override;

  /** Waits until all work of the queue is done. False where the queue is being recorded: then
   *  nothing was waited for. Deferred errors are not raised. Errors: CudaError. */
  bool try_synchronize(Device device, Queue queue) const;
  /** The stream of a queue, made this thread's current device. */
  runtime::Stream stream(Device device, Queue queue) const;
  /** What this thread puts into the stream is recorded until end_recording(). Errors: StateError where another thread records work of the device. */
  void begin_recording(Device device, runtime::Stream stream) const;
  void end_recording(Device device) const noexcept;
  /** Errors: StateError where another thread records what is put into the queue: it would become a part of a step that it is none of. */
  void require_unrecorded_elsewhere(Device device, Queue queue) const;

 private:
  /** Streams are made when they are first asked for and never destroyed: memory is kept by them. */
  struct PerDevice {
    std::mutex mutex;
    std::atomic<runtime::Stream> main{nullptr};
    std::array<std::array<runtime::Stream, kSide>, 2> side{};
    std::array<std::size_t, 2> next{};
    std::atomic<runtime::Stream> recorded{nullptr};
    // Held while a stream is queried, waited for or marked, and exclusively where a capture begins:
    // whoever found a stream unrecorded is done with it before it is recorded.
    std::shared_mutex capture_begin;
  };
  PerDevice& of(Device device) const { return *devices_[static_cast<std::size_t>(device.index)]; }
  runtime::Stream main(Device device) const;
  /** Errors: StateError where another thread records work of the device. */
  void synchronize_all(Device device) const;

  std::vector<std::unique_ptr<PerDevice>> devices_;
};

}  // namespace mezzo::gpu
