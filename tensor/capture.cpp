#include "capture.h"

#include "tensor.h"
#include "text.h"

namespace mezzo {

namespace {
thread_local Capture* the_current = nullptr;
thread_local bool lasting = false;
}  // namespace

LastingMemory::LastingMemory() : outer_(lasting) { lasting = true; }

LastingMemory::~LastingMemory() { lasting = outer_; }

bool LastingMemory::wanted() { return lasting; }

CaptureGuest::~CaptureGuest() = default;

Capture* Capture::current() { return the_current; }

void Capture::set_current(Capture* capture) { the_current = capture; }

void Capture::refuse_crossing(std::string_view op, const Tensor& x, Device to) {
  if (!the_current || (x.device() == to)) return;
  const Device device = the_current->device();
  if (x.device() != device && to != device) return;
  fail<StateError>(
      op, {.what = to == device ? "host memory is read while a step is being captured"
                                : "the device is read while a step is being captured, whose work has not run",
           .got = str(x),
           .expected = "work that stays on the device",
           .hint = to == device ? "make it on the device, or pass it as an input of the step"
                                : "return it from the step, and read it after a replay"});
}

void Capture::require_prepared(std::string_view op, bool prepared, std::string_view what) {
  if (!the_current || prepared) return;
  fail<CapturePostponed>(op, {.what = str(what, " while a step is being captured"),
                              .expected = "a step that has run once as it is",
                              .hint = "call the step once before it is captured"});
}

}  // namespace mezzo
