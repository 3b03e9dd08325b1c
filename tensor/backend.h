// Backend: what a room for another device offers the rest: which devices there are, and how bytes travel to and from them.
// Sees: device.h, queues.h.
// Read next: ../cuda/register.h (who offers one), ops/copy.cpp (who copies).
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "device.h"
#include "queues.h"

namespace mezzo {

class Allocator;

/** Bytes of a device on their way to the host, for which nobody waits. */
class MZ_API Readback {
 public:
  virtual ~Readback();
  /** Never waits. Errors: CudaError. */
  virtual bool arrived() const = 0;
  /** What has arrived. */
  virtual const void* data() const = 0;
};

/** Work of a device that was recorded instead of run. Ends when it is destroyed, with all memory that was taken within. */
class MZ_API RecordedWork {
 public:
  virtual ~RecordedWork();
  /** Ends the recording; the work is ready to run. Errors: CudaError; abandon() then. */
  virtual void finish() = 0;
  /** Ends the recording; there is nothing to run. */
  virtual void abandon() noexcept = 0;
  /** What this thread puts into its current queue from here on comes after all earlier replays, and after what was done with their results where
   *  they ran: before the memory is touched that the next replay reads. Errors: CudaError. */
  virtual void take_turn() = 0;
  /** Puts the work into the device's current queue, which has taken its turn. Errors: CudaError. */
  virtual void replay() = 0;
};

/** A kind of device beside the CPU. One for the process; it lives as long. */
class MZ_API Backend {
 public:
  /** Number of devices that can be used. Never fails. */
  virtual int device_count() const = 0;
  /** Why there is none, in a few words; empty where there are some. */
  virtual std::string absence() const = 0;
  /** What a device is and what its ops use, in one line. */
  virtual std::string description(int index) const = 0;
  /** Copies bytes between two devices, of which one at least is of this kind. They have arrived in the CPU's memory, and may be overwritten where
   *  they came from, when it returns; but for pinned memory with non_blocking. Between two of this kind nobody waits: the copy has its place in the
   *  current queues of both. Errors: CudaError. */
  virtual void copy(const void* from, Device from_device, void* to, Device to_device, std::size_t bytes,
                    const CopyOptions& options) const = 0;
  /** Host memory that the devices copy from and to without a detour. */
  virtual Allocator& pinned_memory() const = 0;
  virtual const Queues& queues() const = 0;
  /** Begins a copy to the host, as the device's work stands now. Errors: CudaError, OutOfMemory. */
  virtual std::unique_ptr<Readback> read_later(const void* from, Device device, std::size_t bytes) const = 0;
  /** From here on this thread's work for the device is recorded. Errors: CudaError. */
  virtual std::unique_ptr<RecordedWork> begin_recording(Device device) const = 0;
  /** A named stretch of this thread's time, for profilers; they nest. */
  virtual void push_range(const char* name) const noexcept = 0;
  virtual void pop_range() const noexcept = 0;

 protected:
  ~Backend() = default;
};

/** The backend of a kind of device; null for the CPU, and where this build has none. */
MZ_API const Backend* find_backend(DeviceKind kind);

/** The backend of the CUDA devices. Errors: DeviceError where this build or machine has none: `op` asked for it with `got`. */
MZ_API const Backend& require_cuda(std::string_view op, const std::string& got);

/** Makes `backend` that of `kind`; for a backend's start-up. */
MZ_API void set_backend(DeviceKind kind, const Backend* backend);

}  // namespace mezzo
