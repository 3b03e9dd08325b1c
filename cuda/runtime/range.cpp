#include "range.h"

#include "../../tensor/device/backend.h"
#include "../../tensor/text/text.h"

namespace mezzo::gpu {

namespace {

/** Returns "DIRECTION/MODULE/OP", for example "fwd/encoder.fc1/linear". */
std::string name_of(const char* direction, const OpInfo& info) {
  const std::string path = current_module_path();
  return str(direction, path, path.empty() ? "" : "/", info.traits.name);
}

}  // namespace

Range::Range(const std::string& name) : backend_(find_backend(DeviceKind::cuda)) {
  if (backend_) backend_->push_range(name.c_str());
}

Range::~Range() {
  if (backend_) backend_->pop_range();
}

emit_nvtx::emit_nvtx()
    : NestedTrace("emit_nvtx: guards must close in reverse order of opening",
                  find_backend(DeviceKind::cuda) != nullptr),
      backend_(find_backend(DeviceKind::cuda)) {}

void emit_nvtx::enter_forward(const OpInfo& info) {
  NestedTrace::enter_forward(info);
  backend_->push_range(name_of("fwd/", info).c_str());
}

void emit_nvtx::leave_forward(const OpInfo& info) noexcept {
  backend_->pop_range();
  NestedTrace::leave_forward(info);
}

void emit_nvtx::enter_backward(const OpInfo& info) {
  NestedTrace::enter_backward(info);
  backend_->push_range(name_of("bwd/", info).c_str());
}

void emit_nvtx::leave_backward(const OpInfo& info, Inputs gy, Inputs gradients) {
  backend_->pop_range();
  NestedTrace::leave_backward(info, gy, gradients);
}

}  // namespace mezzo::gpu
