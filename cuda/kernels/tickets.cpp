#include "tickets.h"

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "../../tensor/device/capture.h"
#include "../runtime/device.h"
#include "shape/copy.h"

namespace mezzo::gpu {

namespace {

/** Returns new counters, and flags after them, without values. */
Tensor new_tickets(Device device) {
  const CategoryScope scope(MemoryCategory::workspace);
  const NoCapturePool lasting;                // in a capture no other work of the step writes there
  static_assert(kTickets % kLineFlags == 0);  // flags begin with a line
  return empty_tensor({kTickets + kLineFlags * kFlagLines}, DType::i32, device);
}

/** The counters of a captured step, which owns them. Its first replay sets them to 0. */
struct CapturedTickets final : CaptureParticipant {
  Tensor counters;
  bool is_open = true;  // the capture is not finished
  bool is_set = false;

  explicit CapturedTickets(Device device) : counters(new_tickets(device)) {}
  void before_replay() override {
    if (!is_set) fill_elements(counters, 0);
    is_set = true;
  }
  void after_replay() override {}
  void finish_capture() override { is_open = false; }
  void abandon_capture() noexcept override { is_open = false; }
};

const Tensor& tickets_of(Capture& capture) {
  static thread_local std::weak_ptr<CapturedTickets> latest;
  std::shared_ptr<CapturedTickets> own = latest.lock();
  if (!own || !own->is_open) {
    own = std::make_shared<CapturedTickets>(capture.device());
    capture.join(own);
    latest = own;
  }
  return own->counters;
}

const Tensor& tickets_of_stream(Device device) {
  static std::mutex mutex;
  // Never destroyed: kernels may run after main.
  static auto& all = *new std::map<std::pair<int, runtime::Stream>, Tensor>;
  const std::lock_guard lock(mutex);
  Tensor& counters = all[{device.index, current_stream(device)}];
  if (!counters.defined()) {
    Tensor fresh = new_tickets(device);
    fill_elements(fresh, 0);
    counters = fresh;
  }
  return counters;
}

}  // namespace

unsigned* tickets(Device device) {
  Capture* const capture = Capture::current(device);
  const Tensor& counters = capture ? tickets_of(*capture) : tickets_of_stream(device);
  return static_cast<unsigned*>(counters.raw_data());
}

unsigned* flags(Device device) { return tickets(device) + kTickets; }

}  // namespace mezzo::gpu
