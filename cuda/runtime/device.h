// The CUDA devices as a Backend: allocators, streams and copies.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "../../tensor/device/backend.h"
#include "../../tensor/device/device.h"
#include "../../tensor/memory/caching_allocator.h"
#include "queues.h"
#include "runtime.h"

namespace mezzo::gpu {

/** Finds the devices, creates their allocators and registers the backend. Never fails: without a
 *  device the backend stores the reason. */
void start_devices();

/** Returns this thread's current stream on a device and makes the device current. Every op and copy
 *  uses it. A freed block can therefore serve the next op in the same stream without waiting. */
runtime::Stream current_stream(Device device);

const CudaQueues& queues();

/** Returns the allocator of a device. */
CachingAllocator& allocator_of(Device device);

/** Returns the device's T, constructed from the arguments at its first use on any thread. It is
 *  never destroyed, because tensors may outlive main. */
template <class T, class... Arguments> T& per_device(Device device, const Arguments&... arguments) {
  static std::mutex mutex;
  static auto& all = *new std::vector<std::unique_ptr<T>>;
  const std::lock_guard lock(mutex);
  const auto index = static_cast<std::size_t>(device.index);
  if (all.size() <= index) all.resize(index + 1);
  if (!all[index]) all[index] = std::make_unique<T>(arguments...);
  return *all[index];
}

/** Allocator of pinned host memory. It caches blocks, because allocating pinned memory synchronises
 *  the device. A block is not reused while a copy may still access it. */
class PinnedAllocator final : public CachingAllocator {
 public:
  explicit PinnedAllocator(const Queues& queues) : CachingAllocator(cpu, &queues) {}

  /** Returns the start of the block that contains an address, or null if it is not pinned
   *  memory. */
  void* block_of(const void* address) const;

 private:
  void* system_allocate(std::size_t bytes) override;
  void system_free(void* block, std::size_t bytes) noexcept override;
  /** Returns the host's memory; the limit for pinned memory is not known. */
  SystemMemory system_memory() const override { return host_memory(); }
  std::string what() const override { return "the CPU's pinned memory"; }

  mutable std::mutex blocks_mutex_;
  std::map<const char*, std::size_t> blocks_;  // start and size in bytes
};

}  // namespace mezzo::gpu
