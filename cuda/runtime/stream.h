// Streams and events: concurrent work on one device. Includes no CUDA header.
//
//   gpu::Stream side(device);
//   side.wait_stream(gpu::Stream::current(device));  // run after the work queued so far
//   {
//     const gpu::StreamScope scope(side);
//     y = matmul(a, b);
//   }
//   gpu::Stream::current(device).wait_stream(side);  // before y is used there
//   gpu::record_stream(y, gpu::Stream::current(device));
#pragma once

#include "../../tensor/core/tensor.h"

namespace mezzo::gpu {

class Event;

/** Options of Stream. */
struct StreamOptions {
  bool high_priority = false;  // schedule its work before that of other streams
};

/** A queue of device work that runs in order. Work in different streams is ordered only by waits. A
 *  Stream is a handle: copies refer to the same stream. A tensor's memory belongs to the stream in
 *  which the tensor was made: before the tensor is freed, any other stream that uses it must be
 *  announced with record_stream(). */
class MZ_API Stream {
 public:
  /** Returns one of the device's 32 streams of this priority, in rotation. Errors: DeviceError
   *  unless `device` is a CUDA device of this machine; CudaError. */
  explicit Stream(Device device = Device::best(), const StreamOptions& options = {});
  /** Returns the stream that receives this thread's work for the device: the main stream outside of
   *  every StreamScope. Errors: DeviceError. */
  static Stream current(Device device = Device::best());
  /** Returns the device's main stream, which is current outside of every StreamScope. Errors:
   *  DeviceError. */
  static Stream main(Device device = Device::best());

  /** Returns the device that the stream belongs to. */
  Device device() const { return device_; }
  /** Makes all later work of this stream wait for the event. Does nothing if the event was never
   *  recorded. The host does not wait. Errors: CudaError; StateError while a step is being
   *  captured. */
  void wait_event(const Event& event) const;
  /** Makes all later work of this stream wait for the work that `other` holds at this time. Errors:
   *  those of wait_event. */
  void wait_stream(const Stream& other) const;
  /** Returns an event recorded after the work that the stream holds at this time. Errors: those of
   *  Event::record. */
  Event record_event() const;
  /** Returns true if all work of the stream is done, without waiting. Errors: CudaError; StateError
   *  while a step is being captured. */
  bool query() const;
  /** Waits on the host until all work of the stream is done. Errors: those of query, and an
   *  IndexError that a kernel has recorded since the last wait. */
  void synchronize() const;
  /** Returns the cudaStream_t, for use with other libraries. */
  void* handle() const;

  friend bool operator==(const Stream& a, const Stream& b) = default;

 private:
  friend class Event;
  friend class StreamScope;
  friend MZ_API void record_stream(const Tensor& x, const Stream& stream);
  Stream(Device device, DeviceQueue queue) : device_(device), queue_(queue) {}

  Device device_;
  DeviceQueue queue_ = nullptr;
};

/** Scope that makes a stream this thread's current one on its device. Scopes nest. */
class MZ_API StreamScope {
 public:
  /** Errors: StateError while a step is being captured; a captured step uses one stream. */
  explicit StreamScope(const Stream& stream);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  Device device_;
  DeviceQueue outer_;
};

/** Options of Event. */
struct EventOptions {
  bool enable_timing = false;  // record times, needed for elapsed_time
};

/** A point in a stream's work. An event that was never recorded counts as reached. */
class MZ_API Event {
 public:
  /** Creates an event that is not recorded yet and has no device. */
  explicit Event(const EventOptions& options = {}) : is_timed_(options.enable_timing) {}
  /** Takes over the recording; `other` counts as never recorded then. */
  Event(Event&& other) noexcept;
  /** Exchanges the two events. */
  Event& operator=(Event&& other) noexcept;
  ~Event();

  /** Records the event after the work that the stream holds at this time, replacing an earlier
   *  recording. Errors: DeviceError if the event was first recorded on another device; CudaError;
   *  StateError while a step is being captured. */
  void record(const Stream& stream);
  /** Records the event in the current stream of Device::best(). Errors: DeviceError if there is no
   *  CUDA device, and as above. */
  void record() { record(Stream::current()); }
  /** Calls stream.wait_event(*this). */
  void wait(const Stream& stream) const { stream.wait_event(*this); }
  /** Returns true if the event has been reached, without waiting. Errors: CudaError. */
  bool query() const;
  /** Waits on the host until the event is reached. Errors: CudaError; StateError while a step is
   *  being captured. */
  void synchronize() const;
  /** Returns the milliseconds from this event to `end`. Errors: StateError unless both events were
   *  created with enable_timing, recorded and reached. */
  float elapsed_time(const Event& end) const;

 private:
  friend class Stream;
  QueueMark mark_ = nullptr;
  Device device_ = {};
  bool is_timed_ = false;
};

/** Waits on the host until all work of the device is done, in every stream. Returns at once on the
 *  CPU. Errors: DeviceError; CudaError; StateError while a step is being captured; an IndexError
 *  that a kernel has recorded since the last wait. */
MZ_API void synchronize(Device device = Device::best());

/** Declares that the stream uses the memory of x. After its last owner releases it, the memory is
 *  not reused before the work that the stream holds at that time is done. Does nothing for the
 *  stream in which x was made. Errors: DeviceError unless both are on one device; StateError while
 *  a step is being captured. */
MZ_API void record_stream(const Tensor& x, const Stream& stream);

}  // namespace mezzo::gpu
