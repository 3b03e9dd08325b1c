#include "device.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "../tensor/caching_allocator.h"
#include "../tensor/text.h"
#include "blas.h"
#include "deferred.h"
#include "dnn.h"
#include "recording.h"

namespace mezzo::gpu {

namespace {

/** Memory of one device. Blocks are cached for the life of the process, so after the first steps none is asked for. */
class DeviceAllocator final : public CachingAllocator {
 public:
  explicit DeviceAllocator(Device device) : CachingAllocator(device), index_(device.index) {}

 private:
  void* system_allocate(std::size_t bytes) override { return runtime::allocate(index_, bytes); }
  void system_free(void* block, std::size_t bytes) noexcept override {
    runtime::deallocate(index_, block, bytes);
  }
  SystemMemory system_memory() const override {
    const runtime::Memory memory = runtime::memory(index_);
    return {memory.free, memory.total};
  }
  void on_cached(void* block, std::size_t block_bytes) noexcept override {
    runtime::block_cached(block, block_bytes);
  }
  void on_reused(void* block, std::size_t block_bytes, std::size_t bytes) noexcept override {
    runtime::block_reused(block, block_bytes, bytes);
  }

  int index_;
};

/** A copy into pinned memory, and the event behind it. */
class DeviceReadback final : public Readback {
 public:
  DeviceReadback(const void* from, std::size_t bytes, runtime::Stream stream)
      : event_(runtime::create_event()) {
    pinned_ = runtime::allocate_pinned(bytes);
    if (!pinned_) {
      runtime::destroy_event(event_);
      fail<OutOfMemory>("read_later", {.what = "out of pinned host memory", .got = str(bytes, " bytes")});
    }
    runtime::copy(pinned_, from, bytes, stream);
    runtime::record(event_, stream);
  }
  ~DeviceReadback() override {
    if (!arrived_) runtime::synchronize_event(event_);  // the copy may not outlive its destination
    runtime::destroy_event(event_);
    runtime::deallocate_pinned(pinned_);
  }
  bool arrived() const override { return arrived_ = arrived_ || runtime::reached(event_); }
  const void* data() const override { return pinned_; }

 private:
  runtime::Event event_;
  void* pinned_ = nullptr;
  mutable bool arrived_ = false;
};

/** Never destroyed: tensors with static storage give their memory back during exit. */
class CudaBackend final : public Backend {
 public:
  CudaBackend() {
    runtime::Discovery found = runtime::discover();
    constexpr int kMost = 64;  // as many as a device index can name, and more than any machine has
    found_count_ = std::min(found.count, kMost);
    absence_ = std::move(found.absence);
    streams_.resize(static_cast<std::size_t>(found_count_));
    for (int i = 0; i < found_count_; ++i) {
      const Device device{DeviceKind::cuda, static_cast<std::int8_t>(i)};
      allocators_.push_back(new DeviceAllocator(device));
      set_allocator(device, allocators_.back());
    }
  }

  int device_count() const override { return found_count_; }
  std::string absence() const override { return absence_; }

  std::string description(int index) const override {
    return str(runtime::description(index), ", ", blas::description(), ", ", dnn::description());
  }

  void copy(const void* from, Device from_device, void* to, Device to_device,
            std::size_t bytes) const override {
    const runtime::Stream stream = stream_of(from_device == cpu ? to_device : from_device);
    runtime::copy(to, from, bytes, stream);
    // To a device the host's memory is free again by now; the device's own work comes later in the same stream.
    if (from_device == cpu) return;
    runtime::synchronize(stream);
    raise_deferred(from_device);
  }

  std::unique_ptr<Readback> read_later(const void* from, Device device, std::size_t bytes) const override {
    return std::make_unique<DeviceReadback>(from, bytes, stream_of(device));
  }

  std::unique_ptr<RecordedWork> begin_recording(Device device) const override { return record_work(device); }

  CachingAllocator& allocator_of(Device device) const {
    return *allocators_[static_cast<std::size_t>(device.index)];
  }

  runtime::Stream stream_of(Device device) const {
    runtime::use(device.index);
    const std::lock_guard lock(mutex_);
    runtime::Stream& stream = streams_[static_cast<std::size_t>(device.index)];
    if (!stream) stream = runtime::create_stream(device.index);
    return stream;
  }

 private:
  int found_count_ = 0;
  std::string absence_;
  mutable std::mutex mutex_;
  mutable std::vector<runtime::Stream> streams_;
  std::vector<DeviceAllocator*> allocators_;
};

const CudaBackend& the_backend() {
  static const CudaBackend& backend = *new CudaBackend;
  return backend;
}

}  // namespace

void start_devices() { set_backend(DeviceKind::cuda, &the_backend()); }

runtime::Stream current_stream(Device device) { return the_backend().stream_of(device); }

CachingAllocator& allocator_of(Device device) { return the_backend().allocator_of(device); }

}  // namespace mezzo::gpu
