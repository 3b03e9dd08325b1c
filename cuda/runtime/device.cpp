#include "device.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <vector>

#include "../../tensor/device/queues.h"
#include "../../tensor/memory/caching_allocator.h"
#include "../../tensor/text/text.h"
#include "../blas/blas.h"
#include "../dnn/dnn.h"
#include "index_errors.h"
#include "recording.h"
#include "runtime.h"

namespace mezzo::gpu {

namespace {

/** Allocator of one device. Blocks are cached for the life of the process, so that after the first
 *  steps no driver call is needed. */
class DeviceAllocator final : public CachingAllocator {
 public:
  DeviceAllocator(Device device, const CudaQueues& queues)
      : CachingAllocator(device, &queues), queues_(queues), index_(device.index) {}

 private:
  void* system_allocate(std::size_t bytes) override { return runtime::allocate(index_, bytes); }
  void system_free(void* block, std::size_t bytes) noexcept override {
    runtime::deallocate(index_, block, bytes);
  }
  SystemMemory system_memory() const override {
    const runtime::Memory memory = runtime::memory(index_);
    return {memory.free, memory.total};
  }
  DeviceQueue home_queue() const override { return queues_.current({DeviceKind::cuda, index_}); }
  void on_cached(void* block, std::size_t block_bytes) noexcept override {
    runtime::block_cached(block, block_bytes);
  }
  void on_reused(void* block, std::size_t block_bytes, std::size_t bytes) noexcept override {
    runtime::block_reused(block, block_bytes, bytes);
  }

  const CudaQueues& queues_;
  int index_;
};

/** An asynchronous copy into pinned memory and the mark that follows it. */
class DeviceAsyncRead final : public AsyncRead {
 public:
  DeviceAsyncRead(const void* from, Device device, std::size_t bytes, const CudaQueues& queues,
                  PinnedAllocator& pinned)
      : queues_(queues), pinned_(pinned), bytes_(bytes), mark_(queues.make_mark(device, false)) {
    try {
      data_ = pinned_.allocate(bytes_, kCategory);
      const DeviceQueue queue = queues_.current(device);
      queues_.require_unrecorded_elsewhere(device, queue);
      pinned_.record_use(data_, device, queue);
      runtime::copy(data_, from, bytes_, queues_.stream(device, queue));
      queues_.place(mark_, device, queue);
    } catch (...) {
      release();
      throw;
    }
  }
  ~DeviceAsyncRead() override { release(); }
  bool arrived() const override { return arrived_ = arrived_ || queues_.reached(mark_); }
  void wait() const override {
    if (!arrived()) queues_.wait_for(mark_);
    arrived_ = true;
  }
  const void* data() const override { return data_; }

 private:
  static constexpr MemoryCategory kCategory = MemoryCategory::other;

  void release() noexcept {
    pinned_.deallocate(data_, bytes_, kCategory);
    queues_.drop_mark(mark_);
  }

  const CudaQueues& queues_;
  PinnedAllocator& pinned_;
  std::size_t bytes_;
  QueueMark mark_;
  void* data_ = nullptr;
  mutable bool arrived_ = false;
};

/** The CUDA backend. It is never destroyed: tensors with static storage release their memory during
 *  exit. */
class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(runtime::Discovery found)
      : found_count_(std::min(found.count, CudaQueues::kMostDevices)),
        absence_(std::move(found.absence)),
        queues_(found_count_),
        pinned_(queues_) {
    for (int i = 0; i < found_count_; ++i) {
      const Device device{DeviceKind::cuda, i};
      allocators_.push_back(new DeviceAllocator(device, queues_));
      set_allocator(device, allocators_.back());
    }
  }

  int device_count() const override { return found_count_; }
  std::string absence() const override { return absence_; }

  std::string description(int index) const override {
    return str(runtime::description(index), ", ", blas::description(), ", ", dnn::description());
  }

  void copy(const void* from, Device from_device, void* to, Device to_device, std::size_t bytes,
            const CopyOptions& options) const override {
    if (from_device != cpu && to_device != cpu)
      return copy_across(from, from_device, to, to_device, bytes);
    const Device device = from_device == cpu ? to_device : from_device;
    const DeviceQueue queue = queues_.current(device);
    queues_.require_unrecorded_elsewhere(device, queue);
    void* pinned = nullptr;
    if (from_device == cpu) pinned = pinned_.block_of(from);
    if (to_device == cpu) pinned = pinned_.block_of(to);
    if (from_device == cpu && !pinned && upload_staged(from, to, bytes, device, queue)) return;
    if (pinned && options.non_blocking) pinned_.record_use(pinned, device, queue);
    runtime::copy(to, from, bytes, queues_.stream(device, queue));
    if (pinned && options.non_blocking) return;
    queues_.synchronize(device, queue);
  }

  Allocator& pinned_memory() const override { return pinned_; }
  const CudaQueues& queues() const override { return queues_; }

  std::unique_ptr<AsyncRead> read_later(const void* from, Device device,
                                        std::size_t bytes) const override {
    return std::make_unique<DeviceAsyncRead>(from, device, bytes, queues_, pinned_);
  }

  std::unique_ptr<RecordedWork> begin_recording(Device device) const override {
    return record_work(device);
  }

  void push_range(const char* name) const noexcept override { runtime::push_range(name); }
  void pop_range() const noexcept override { runtime::pop_range(); }

  CachingAllocator& allocator_of(Device device) const {
    return *allocators_[static_cast<std::size_t>(device.index)];
  }

 private:
  static constexpr std::size_t kMostStaged = std::size_t{1} << 20;

  /** Copies from pageable memory through a pinned block, because a device that can read pageable
   *  memory itself may do so after the call has returned. Returns false, with nothing copied, if
   *  there are too many bytes or there is no pinned memory. */
  bool upload_staged(const void* from, void* to, std::size_t bytes, Device device,
                     DeviceQueue queue) const {
    constexpr MemoryCategory kCategory = MemoryCategory::other;
    if (bytes == 0) return true;
    if (bytes > kMostStaged) return false;
    void* block = nullptr;
    try {
      block = pinned_.allocate(bytes, kCategory);
    } catch (const OutOfMemory&) {
      return false;
    }
    std::memcpy(block, from, bytes);
    try {
      pinned_.record_use(block, device, queue);
      runtime::copy(to, block, bytes, queues_.stream(device, queue));
    } catch (...) {
      pinned_.deallocate(block, bytes, kCategory);
      throw;
    }
    pinned_.deallocate(block, bytes, kCategory);
    return true;
  }

  /** Copies in the source's current queue, after all work that the target's current queue holds at
   *  this time and before all later work of that queue. */
  void copy_across(const void* from, Device from_device, void* to, Device to_device,
                   std::size_t bytes) const {
    const QueueOf source{from_device, queues_.current(from_device)},
        target{to_device, queues_.current(to_device)};
    put_behind(queues_, source, target);
    runtime::copy(to, from, bytes, queues_.stream(source.device, source.queue));
    put_behind(queues_, target, source);
  }

  int found_count_ = 0;
  std::string absence_;
  CudaQueues queues_;
  mutable PinnedAllocator pinned_;
  std::vector<DeviceAllocator*> allocators_;
};

const CudaBackend& the_backend() {
  static const CudaBackend& backend = *new CudaBackend(runtime::discover());
  return backend;
}

}  // namespace

void start_devices() { set_backend(DeviceKind::cuda, &the_backend()); }

runtime::Stream current_stream(Device device) {
  const CudaQueues& all = queues();
  all.require_unrecorded_elsewhere(device, all.current(device));
  return all.stream(device, all.current(device));
}

const CudaQueues& queues() { return the_backend().queues(); }

CachingAllocator& allocator_of(Device device) { return the_backend().allocator_of(device); }

void* PinnedAllocator::block_of(const void* address) const {
  const std::lock_guard lock(blocks_mutex_);
  const auto* at = static_cast<const char*>(address);
  auto next = blocks_.upper_bound(at);
  if (next == blocks_.begin()) return nullptr;
  const auto& [start, bytes] = *std::prev(next);
  return at < start + bytes ? const_cast<char*>(start) : nullptr;
}

void* PinnedAllocator::system_allocate(std::size_t bytes) {
  void* block = runtime::allocate_pinned(bytes);
  if (!block) return nullptr;
  const std::lock_guard lock(blocks_mutex_);
  blocks_.emplace(static_cast<const char*>(block), bytes);
  return block;
}

void PinnedAllocator::system_free(void* block, std::size_t) noexcept {
  {
    const std::lock_guard lock(blocks_mutex_);
    blocks_.erase(static_cast<const char*>(block));
  }
  runtime::deallocate_pinned(block);
}

}  // namespace mezzo::gpu
