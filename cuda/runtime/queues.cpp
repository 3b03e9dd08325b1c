#include "queues.h"

#include "../../tensor/core/error.h"
#include "../../tensor/text/text.h"
#include "index_errors.h"

namespace mezzo::gpu {

namespace {

thread_local std::array<DeviceQueue, CudaQueues::kMostDevices> current_queues{};

/** The stream that this thread records. */
thread_local runtime::Stream recorded_here = nullptr;

DeviceQueue& current_of(Device device) {
  return current_queues[static_cast<std::size_t>(device.index)];
}

}  // namespace

CudaQueues::CudaQueues(int devices) {
  for (int i = 0; i < devices; ++i) devices_.push_back(std::make_unique<PerDevice>());
}

DeviceQueue CudaQueues::current(Device device) const { return current_of(device); }

void CudaQueues::set_current(Device device, DeviceQueue queue) const noexcept {
  current_of(device) = queue;
}

runtime::Stream CudaQueues::main(Device device) const {
  PerDevice& d = of(device);
  if (runtime::Stream known = d.main.load(std::memory_order_acquire)) return known;
  const std::lock_guard lock(d.mutex);
  if (!d.main.load(std::memory_order_relaxed))
    d.main.store(runtime::create_stream(device.index), std::memory_order_release);
  return d.main.load(std::memory_order_relaxed);
}

DeviceQueue CudaQueues::next_side(Device device, bool urgent) const {
  PerDevice& d = of(device);
  const std::lock_guard lock(d.mutex);
  const std::size_t kind = urgent ? 1 : 0;
  runtime::Stream& stream = d.side[kind][d.next[kind]];
  if (!stream) stream = runtime::create_stream(device.index, urgent);
  d.next[kind] = (d.next[kind] + 1) % kSide;
  return stream;
}

runtime::Stream CudaQueues::stream(Device device, DeviceQueue queue) const {
  runtime::use(device.index);
  return queue ? queue : main(device);
}

bool CudaQueues::is_idle(Device device, DeviceQueue queue) const {
  const std::shared_lock lock(of(device).capture_begin);
  return !is_recorded(device, queue) && runtime::is_idle(stream(device, queue));
}

bool CudaQueues::try_synchronize(Device device, DeviceQueue queue) const {
  const std::shared_lock lock(of(device).capture_begin);
  if (is_recorded(device, queue)) return false;
  runtime::synchronize(stream(device, queue));
  return true;
}

void CudaQueues::synchronize(Device device, DeviceQueue queue) const {
  {
    const std::shared_lock lock(of(device).capture_begin);
    require_unrecorded_elsewhere(device, queue);
    runtime::synchronize(stream(device, queue));
  }
  raise_index_errors(device);
}

void CudaQueues::synchronize(Device device) const {
  synchronize_all(device);
  raise_index_errors(device);
}

void CudaQueues::synchronize_all(Device device) const {
  const std::shared_lock lock(of(device).capture_begin);
  const runtime::Stream recorded = of(device).recorded.load(std::memory_order_acquire);
  if (recorded && recorded != recorded_here)
    fail<StateError>("synchronize",
                     {.what = "another thread is capturing a step on this device",
                      .got = str(device),
                      .hint = "synchronise one stream, or wait until the capture has ended"});
  runtime::synchronize_device(device.index);
}

QueueMark CudaQueues::make_mark(Device device, bool timed) const {
  runtime::use(device.index);
  return runtime::create_event(timed);
}

void CudaQueues::place(QueueMark mark, Device device, DeviceQueue queue) const {
  const std::shared_lock lock(of(device).capture_begin);
  require_unrecorded_elsewhere(device, queue);
  runtime::record(mark, stream(device, queue));
}

void CudaQueues::hold(Device device, DeviceQueue queue, QueueMark mark) const {
  const std::shared_lock lock(of(device).capture_begin);
  require_unrecorded_elsewhere(device, queue);
  runtime::wait(stream(device, queue), mark);
}

bool CudaQueues::is_recorded(Device device, DeviceQueue queue) const {
  const runtime::Stream recorded = of(device).recorded.load(std::memory_order_acquire);
  return recorded && recorded == stream(device, queue);
}

void CudaQueues::begin_recording(Device device, runtime::Stream stream) const {
  const std::lock_guard lock(of(device).capture_begin);
  runtime::Stream none = nullptr;
  if (!of(device).recorded.compare_exchange_strong(none, stream, std::memory_order_acq_rel))
    fail<StateError>("Graph.capture", {.what = "another thread is capturing a step on this device",
                                       .got = str(device),
                                       .hint = "capture one step after the other"});
  recorded_here = stream;
}

void CudaQueues::end_recording(Device device) const noexcept {
  recorded_here = nullptr;
  of(device).recorded.store(nullptr, std::memory_order_release);
}

void CudaQueues::require_unrecorded_elsewhere(Device device, DeviceQueue queue) const {
  const runtime::Stream recorded = of(device).recorded.load(std::memory_order_acquire);
  if (!recorded || recorded == recorded_here || recorded != stream(device, queue)) return;
  fail<StateError>(
      ApiScope::outermost("stream"),
      {.what = "another thread is capturing a step in this stream",
       .hint = "use another stream with gpu::StreamScope, or wait until the capture has ended"});
}

}  // namespace mezzo::gpu
