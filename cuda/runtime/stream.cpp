#include "stream.h"

#include <utility>

#include "../../tensor/device/backend.h"
#include "../../tensor/device/capture.h"
#include "../../tensor/text/text.h"

namespace mezzo::gpu {

namespace {

/** Returns the backend's queues; the existence of the device was checked when the stream was
 *  made. */
const Queues& cuda_queues() { return find_backend(DeviceKind::cuda)->queues(); }

Device checked(Device device) {
  const Backend& backend = require_cuda("Stream", str(device));
  if (device.kind != DeviceKind::cuda || device.index < 0 || device.index >= backend.device_count())
    fail<DeviceError>("Stream", {.what = "streams exist on CUDA devices only",
                                 .got = str(device),
                                 .expected = str("cuda:0..cuda:", backend.device_count() - 1)});
  return device;
}

/** Throws StateError while a step is being captured: a replay cannot repeat synchronisation between
 *  streams. */
void refuse_capture(const char* call) {
  if (Capture::current())
    fail<StateError>(call, {.what = "not allowed while a step is being captured",
                            .expected = "work in one stream",
                            .hint = "call it before or after the capture"});
}

}  // namespace

// ---- Stream -------------------------------------------------------------------------------------

Stream::Stream(Device device, const StreamOptions& options)
    : device_(checked(device)), queue_(cuda_queues().next_side(device, options.high_priority)) {}

Stream Stream::current(Device device) {
  checked(device);
  return {device, cuda_queues().current(device)};
}

Stream Stream::main(Device device) { return {checked(device), nullptr}; }

void Stream::wait_event(const Event& event) const {
  refuse_capture("Stream.wait_event");
  if (event.mark_) cuda_queues().hold(device_, queue_, event.mark_);
}

void Stream::wait_stream(const Stream& other) const {
  refuse_capture("Stream.wait_stream");
  wait_event(other.record_event());
}

Event Stream::record_event() const {
  Event event;
  event.record(*this);
  return event;
}

bool Stream::query() const {
  refuse_capture("Stream.query");
  return cuda_queues().is_idle(device_, queue_);
}

void Stream::synchronize() const {
  refuse_capture("Stream.synchronize");
  cuda_queues().synchronize(device_, queue_);
}

void* Stream::handle() const { return cuda_queues().handle(device_, queue_); }

// ---- StreamScope --------------------------------------------------------------------------------

StreamScope::StreamScope(const Stream& stream)
    : device_(stream.device_), outer_(cuda_queues().current(stream.device_)) {
  refuse_capture("StreamScope");
  cuda_queues().set_current(device_, stream.queue_);
}

StreamScope::~StreamScope() { cuda_queues().set_current(device_, outer_); }

// ---- Event --------------------------------------------------------------------------------------

Event::Event(Event&& other) noexcept
    : mark_(std::exchange(other.mark_, nullptr)),
      device_(other.device_),
      is_timed_(other.is_timed_) {}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(mark_, other.mark_);
  std::swap(device_, other.device_);
  std::swap(is_timed_, other.is_timed_);
  return *this;
}

Event::~Event() {
  if (mark_) cuda_queues().drop_mark(mark_);
}

void Event::record(const Stream& stream) {
  refuse_capture("Event.record");
  if (mark_ && !(stream.device_ == device_))
    fail<DeviceError>("Event.record", {.what = "the event belongs to another device",
                                       .got = str("a stream of ", stream.device_),
                                       .expected = str("one of ", device_)});
  if (!mark_) mark_ = cuda_queues().make_mark(stream.device_, is_timed_);
  device_ = stream.device_;
  cuda_queues().place(mark_, stream.device_, stream.queue_);
}

bool Event::query() const { return !mark_ || cuda_queues().reached(mark_); }

void Event::synchronize() const {
  refuse_capture("Event.synchronize");
  if (mark_) cuda_queues().wait_for(mark_);
}

float Event::elapsed_time(const Event& end) const {
  const auto require = [](bool holds, const char* what, const char* hint) {
    if (!holds) fail<StateError>("Event.elapsed_time", {.what = what, .hint = hint});
  };
  require(mark_ && end.mark_, "an event was never recorded", "call record()");
  require(is_timed_ && end.is_timed_, "an event was created without timing",
          "create both with {.enable_timing = true}");
  require(query() && end.query(), "an event has not been reached yet", "call end.synchronize()");
  return cuda_queues().between(mark_, end.mark_);
}

// ---- functions ----------------------------------------------------------------------------------

void synchronize(Device device) {
  if (device == cpu) return;
  checked(device);
  refuse_capture("synchronize");
  cuda_queues().synchronize(device);
}

void record_stream(const Tensor& x, const Stream& stream) {
  refuse_capture("record_stream");
  if (!(x.device() == stream.device_))
    fail<DeviceError>("record_stream", {.what = "the stream belongs to another device",
                                        .got = str(x, " and a stream of ", stream.device_),
                                        .expected = "one device"});
  allocator_for(x.device()).record_use(x.impl()->storage->data(), stream.device_, stream.queue_);
}

}  // namespace mezzo::gpu
