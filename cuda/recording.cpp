#include "recording.h"

#include "deferred.h"
#include "device.h"

namespace mezzo::gpu {

namespace {

class Recording final : public RecordedWork {
 public:
  explicit Recording(Device device)
      : device_(device), queue_(queues().current(device)), stream_(current_stream(device)) {
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
    if (last_replay_) queues().hold(device_, queue_, last_replay_);
    if (last_replay_) queues().drop_mark(last_replay_);
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
  void replay() override {
    const Queue queue = queues().current(device_);
    queues().require_unrecorded_elsewhere(device_, queue);
    if (queue != queue_ || last_replay_) follow(queue);
    runtime::launch_graph(graph_, queues().stream(device_, queue));
    if (last_replay_) queues().place(last_replay_, device_, queue);
    arm_watched(device_);
  }

 private:
  void stop() noexcept {
    is_recording_ = false;
    queues().end_recording(device_);
    allocator_of(device_).end_pool();
  }
  /** A replay in another stream than that of the capture comes after all earlier ones, which work in the same memory. */
  void follow(Queue queue) {
    if (!last_replay_) {
      const Mark mark = queues().make_mark(device_, false);
      queues().place(mark, device_, queue_);
      last_replay_ = mark;
    }
    queues().hold(device_, queue, last_replay_);
  }

  Device device_;
  Queue queue_;
  runtime::Stream stream_;
  BlockPool pool_;
  runtime::Graph graph_ = nullptr;
  bool is_recording_ = true;
  Mark last_replay_ = nullptr;  // set once replays have left the stream of the capture
};

}  // namespace

std::unique_ptr<RecordedWork> record_work(Device device) { return std::make_unique<Recording>(device); }

}  // namespace mezzo::gpu
