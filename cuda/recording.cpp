#include "recording.h"

#include "deferred.h"
#include "device.h"

namespace mezzo::gpu {

namespace {

class Recording final : public RecordedWork {
 public:
  explicit Recording(Device device) : device_(device), stream_(current_stream(device)) {
    prepare_watch(device);
    runtime::begin_capture(stream_);
    allocator_of(device).begin_pool(pool_);
  }
  ~Recording() override {
    if (is_recording_) abandon();
    if (graph_) runtime::destroy_graph(graph_);
    // Work that is still under way goes on in these blocks; what gets them next comes behind it in the stream.
    allocator_of(device_).release_pool(pool_);
  }

  void finish() override {
    is_recording_ = false;
    allocator_of(device_).end_pool();
    graph_ = runtime::end_capture(stream_);
    keep_watched(device_);
  }
  void abandon() noexcept override {
    if (is_recording_) runtime::abandon_capture(stream_);
    is_recording_ = false;
    allocator_of(device_).end_pool();
  }
  void replay() override {
    runtime::use(device_.index);
    runtime::launch_graph(graph_, stream_);
    arm_watched(device_);
  }

 private:
  Device device_;
  runtime::Stream stream_;
  BlockPool pool_;
  runtime::Graph graph_ = nullptr;
  bool is_recording_ = true;
};

}  // namespace

std::unique_ptr<RecordedWork> record_work(Device device) { return std::make_unique<Recording>(device); }

}  // namespace mezzo::gpu
