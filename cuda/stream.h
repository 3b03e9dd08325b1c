// Streams, events and the waits for them: work of one device that may run side by side.
// Sees: ../tensor. No CUDA header.
// Read next: stream.cpp, ../tensor/queues.h (what they are made of), graph.h (work that is put into a stream as a whole).
//
//   gpu::Stream side(device);
//   side.wait_stream(gpu::Stream::current(device));  // what was put into the current one comes first
//   {
//     const gpu::StreamScope scope(side);
//     y = matmul(a, b);
//   }
//   gpu::Stream::current(device).wait_stream(side);  // before y is used there
//   gpu::record_stream(y, gpu::Stream::current(device));
#pragma once

#include "../tensor/tensor.h"

namespace mezzo::gpu {

class Event;

struct StreamOptions {
  bool high_priority = false;  // its work goes before that of other streams where both could run
};

/** A queue of a device's work, which runs in the order it was put in; work in different streams has no order but that of their waits. A handle:
 *  copies name the same stream. A tensor's memory belongs to the stream it was made in: used in another one, it has to be announced there by
 *  record_stream() before it is let go. */
class MZ_API Stream {
 public:
  /** One of the device's 32 streams of this priority, each in turn. Errors: DeviceError unless it is a CUDA device of this machine; CudaError. */
  explicit Stream(Device device = Device::best(), const StreamOptions& options = {});
  /** Where this thread's work for the device goes: the main stream outside of every StreamScope. Errors: DeviceError. */
  static Stream current(Device device = Device::best());
  /** Where all work goes that no StreamScope leads elsewhere. Errors: DeviceError. */
  static Stream main(Device device = Device::best());

  Device device() const { return device_; }
  /** What is put into it from now on waits for the event, for nothing where the event was never recorded; the host does not wait. Errors: CudaError;
   *  StateError while a step is being captured. */
  void wait_event(const Event& event) const;
  /** What is put into it from now on waits for all that is in the other one. Errors: as wait_event. */
  void wait_stream(const Stream& other) const;
  /** An event behind all that is in it now. Errors: as Event::record. */
  Event record_event() const;
  /** Whether all its work is done; never waits. Errors: CudaError; StateError while a step is being captured. */
  bool query() const;
  /** Waits on the host until all its work is done. Errors: as query, and what a kernel has found since the last wait (IndexError). */
  void synchronize() const;
  /** The cudaStream_t, for other libraries. */
  void* handle() const;

  friend bool operator==(const Stream& a, const Stream& b) = default;

 private:
  friend class Event;
  friend class StreamScope;
  friend MZ_API void record_stream(const Tensor& x, const Stream& stream);
  Stream(Device device, Queue queue) : device_(device), queue_(queue) {}

  Device device_;
  Queue queue_ = nullptr;
};

/** Makes a stream this thread's current one on its device until the end of the scope. Scopes nest. */
class MZ_API StreamScope {
 public:
  /** Errors: StateError while a step is being captured, whose work is that of one stream. */
  explicit StreamScope(const Stream& stream);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  Device device_;
  Queue outer_;
};

struct EventOptions {
  bool enable_timing = false;  // for elapsed_time
};

/** A point in a stream's work. One that was never recorded counts as reached. */
class MZ_API Event {
 public:
  explicit Event(const EventOptions& options = {}) : is_timed_(options.enable_timing) {}
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  ~Event();

  /** Sets it behind all that is in the stream now, wherever it was before. Errors: DeviceError for a stream of another device than that of the
   *  first time; CudaError; StateError while a step is being captured. */
  void record(const Stream& stream);
  /** In the current stream of the fastest device. Errors: DeviceError where there is none, and as above. */
  void record() { record(Stream::current()); }
  /** As stream.wait_event. */
  void wait(const Stream& stream) const { stream.wait_event(*this); }
  /** Whether it was reached; never waits. Errors: CudaError. */
  bool query() const;
  /** Waits on the host until it is reached. Errors: CudaError; StateError while a step is being captured. */
  void synchronize() const;
  /** Milliseconds from this event to `end`. Errors: StateError unless both were recorded, with enable_timing, and reached. */
  float elapsed_time(const Event& end) const;

 private:
  friend class Stream;
  Mark mark_ = nullptr;
  Device device_ = {};
  bool is_timed_ = false;
};

/** Waits on the host until all work of the device is done, in every stream; on the CPU, whose work is done when a call returns, for nothing.
 *  Errors: DeviceError; CudaError; StateError while a step is being captured; what a kernel has found since the last wait (IndexError). */
MZ_API void synchronize(Device device = Device::best());

/** Tells the memory of x that the stream works with it too: when the last owner of the memory lets go of it, it serves nobody else before all is done
 *  that is in the stream by then. Nothing for the stream that x was made in. Errors: DeviceError unless both are on one device; StateError
 *  while a step is being captured. */
MZ_API void record_stream(const Tensor& x, const Stream& stream);

}  // namespace mezzo::gpu
