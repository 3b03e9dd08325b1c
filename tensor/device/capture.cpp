#include "capture.h"

#include "../core/tensor.h"
#include "../text/text.h"

namespace mezzo {

namespace {
thread_local Capture* current_capture = nullptr;
thread_local bool outside_pool = false;
}  // namespace

NoCapturePool::NoCapturePool() : outer_(outside_pool) { outside_pool = true; }

NoCapturePool::~NoCapturePool() { outside_pool = outer_; }

bool NoCapturePool::wanted() { return outside_pool; }

CaptureParticipant::~CaptureParticipant() = default;

Capture* Capture::current() { return current_capture; }

Capture* Capture::current(Device device) {
  return current_capture && current_capture->device() == device ? current_capture : nullptr;
}

void Capture::set_current(Capture* capture) { current_capture = capture; }

void Capture::refuse_crossing(std::string_view op, const Tensor& x, Device to) {
  if (!current_capture || (x.device() == to)) return;
  const Device device = current_capture->device();
  if (x.device() != device && to != device) return;
  fail<StateError>(
      op,
      {.what = to == device
                   ? "host memory is read while a step is being captured"
                   : "the device is read while a step is being captured, before its work has run",
       .got = str(x),
       .expected = "work that stays on the device",
       .hint = to == device ? "make it on the device, or pass it as an input of the step"
                            : "return it from the step, and read it after a replay"});
}

void Capture::require_prepared(std::string_view op, bool prepared, std::string_view what) {
  if (!current_capture || prepared) return;
  fail<CapturePostponed>(op, {.what = str(what, " while a step is being captured"),
                              .expected = "a step that has already run once",
                              .hint = "call the step once before it is captured"});
}

}  // namespace mezzo
