// Backend: the interface of a kind of device other than the CPU: its devices, copies, queues and
// recording.
// See also: ../../cuda/register.h (registers the CUDA backend).
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "device.h"
#include "queues.h"

namespace mezzo {

class Allocator;

/** An asynchronous read of device memory into host memory. */
class MZ_API AsyncRead {
 public:
  virtual ~AsyncRead();
  /** Returns true if the bytes have arrived, without waiting. Errors: CudaError. */
  virtual bool arrived() const = 0;
  /** Waits until the bytes have arrived. Errors: CudaError. */
  virtual void wait() const = 0;
  /** Returns the bytes, after arrived() was true or wait() has returned. */
  virtual const void* data() const = 0;
};

/** Device work that was recorded instead of run. Its destructor frees all memory that was allocated
 *  during the recording. */
class MZ_API RecordedWork {
 public:
  virtual ~RecordedWork();
  /** Ends the recording and makes the work ready to run. Errors: CudaError; call abandon() then. */
  virtual void finish() = 0;
  /** Ends the recording and discards the work. */
  virtual void abandon() noexcept = 0;
  /** Orders all further work of this thread's current queue after all earlier replays, and after
   *  the uses of their results in the queues where they ran. Called before the inputs of the next
   *  replay are written. Errors: CudaError. */
  virtual void take_turn() = 0;
  /** Enqueues the work in the device's current queue; call take_turn() before. Errors:
   *  CudaError. */
  virtual void replay() = 0;
};

/** A kind of device other than the CPU. There is one object per process, which lives as long as the
 *  process. */
class MZ_API Backend {
 public:
  /** Returns the number of usable devices. Never throws. */
  virtual int device_count() const = 0;
  /** Returns why there is no usable device, in a few words; empty if there is one. */
  virtual std::string absence() const = 0;
  /** Returns a one-line description of a device and of the libraries that its ops use. */
  virtual std::string description(int index) const = 0;
  /** Copies bytes between two devices, at least one of which is of this kind. On return the bytes
   *  have arrived in CPU memory, and the source may be overwritten, except for pinned memory with
   *  non_blocking. A copy between two devices of this kind does not block the host; it is ordered
   *  in the current queues of both. Errors: CudaError. */
  virtual void copy(const void* from, Device from_device, void* to, Device to_device,
                    std::size_t bytes, const CopyOptions& options) const = 0;
  /** Returns the allocator of pinned host memory, which the devices access directly. */
  virtual Allocator& pinned_memory() const = 0;
  /** Returns the queues of all devices of this kind. */
  virtual const Queues& queues() const = 0;
  /** Starts a copy to the host, ordered after the device's work so far. Errors: CudaError,
   *  OutOfMemory. */
  virtual std::unique_ptr<AsyncRead> read_later(const void* from, Device device,
                                                std::size_t bytes) const = 0;
  /** Starts recording this thread's work for the device. Errors: CudaError. */
  virtual std::unique_ptr<RecordedWork> begin_recording(Device device) const = 0;
  /** Marks a named range of this thread's execution for profilers; ranges nest. */
  virtual void push_range(const char* name) const noexcept = 0;
  virtual void pop_range() const noexcept = 0;

 protected:
  ~Backend() = default;
};

/** Returns the backend of a kind of device; null for the CPU, and if this build has none. */
MZ_API const Backend* find_backend(DeviceKind kind);

/** Returns the backend of the CUDA devices. Errors: DeviceError if this build or machine has none;
 *  the error names `op` and `got`. */
MZ_API const Backend& require_cuda(std::string_view op, const std::string& got);

/** Registers the backend of `kind`; called when the backend starts. */
MZ_API void set_backend(DeviceKind kind, const Backend* backend);

}  // namespace mezzo
