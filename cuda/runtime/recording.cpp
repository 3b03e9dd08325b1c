#include "recording.h"

#include "../../tensor/device/queues.h"
#include "device.h"
#include "index_errors.h"

namespace mezzo::gpu {

namespace {

class Recording final : public RecordedWork {
 public:
  explicit Recording(Device device)
      : device_(device),
        queue_(queues().current(device)),
        stream_(current_stream(device)),
        latest_(queue_) {
    prepare_capture(device);
    queues().begin_recording(device, stream_);
    try {
      runtime::begin_capture(stream_);
    } catch (...) {
      queues().end_recording(device);
      throw;
    }
    allocator_of(device).begin_pool(pool_);
  }
  ~Recording() override {
    if (is_recording_) abandon();
    if (graph_) {
      runtime::destroy_graph(graph_);
      release_watched(device_);
    }
    // Pending work still uses these blocks. The stream of the capture waits for it, and the blocks'
    // next users run after it in that stream.
    try {
      if (latest_ != queue_) put_behind(queues(), {device_, queue_}, {device_, latest_});
    } catch (const Error&) {}  // the device is broken and runs nothing
    allocator_of(device_).release_pool(pool_);
  }

  void finish() override {
    graph_ = runtime::end_capture(stream_);
    stop();
    keep_watched(device_);
  }
  void abandon() noexcept override {
    if (is_recording_) runtime::abandon_capture(stream_);
    stop();
  }
  // Waits for the previous user's queue when another queue takes its turn, not after each replay,
  // so that later work on the results is included.
  void take_turn() override {
    const DeviceQueue queue = queues().current(device_);
    queues().require_unrecorded_elsewhere(device_, queue);
    if (queue != latest_) put_behind(queues(), {device_, queue}, {device_, latest_});
    latest_ = queue;
  }
  void replay() override {
    runtime::launch_graph(graph_, current_stream(device_));
    arm_watched(device_);
  }

 private:
  void stop() noexcept {
    is_recording_ = false;
    queues().end_recording(device_);
    allocator_of(device_).end_pool();
  }

  Device device_;
  DeviceQueue queue_;
  runtime::Stream stream_;
  BlockPool pool_;
  runtime::Graph graph_ = nullptr;
  bool is_recording_ = true;
  DeviceQueue latest_;  // queue that used the memory last: that of the capture or of a replay
};

}  // namespace

std::unique_ptr<RecordedWork> record_work(Device device) {
  return std::make_unique<Recording>(device);
}

}  // namespace mezzo::gpu
