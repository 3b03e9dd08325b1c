#include "recording.h"

#include "../tensor/queue_order.h"
#include "deferred.h"
#include "device.h"

namespace mezzo::gpu {

namespace {

class Recording final : public RecordedWork {
 public:
  explicit Recording(Device device)
      : device_(device), queue_(queues().current(device)), stream_(current_stream(device)), latest_(queue_) {
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
    // Work that is still under way goes on in these blocks; what gets them next comes behind it in the stream of the capture.
    try {
      if (latest_ != queue_) put_behind(queues(), {device_, queue_}, {device_, latest_});
    } catch (const Error&) {}  // of a broken device, which runs nothing any more
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
  // The latest user's queue is asked when another takes over, not after each replay: so what it has done with the results is waited for too.
  void take_turn() override {
    const Queue queue = queues().current(device_);
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
  Queue queue_;
  runtime::Stream stream_;
  BlockPool pool_;
  runtime::Graph graph_ = nullptr;
  bool is_recording_ = true;
  Queue latest_;  // where the memory was used last: that of the capture, or of a replay
};

}  // namespace

std::unique_ptr<RecordedWork> record_work(Device device) { return std::make_unique<Recording>(device); }

}  // namespace mezzo::gpu
