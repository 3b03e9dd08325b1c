#include "range.h"

#include "../tensor/backend.h"
#include "../tensor/text.h"

namespace mezzo::gpu {

namespace {

/** "fwd/encoder.fc1/linear". */
std::string name_of(const char* direction, const OpRow& row) {
  const std::string path = current_module_path();
  return str(direction, path, path.empty() ? "" : "/", row.traits.name);
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

void emit_nvtx::enter_forward(const OpRow& row) {
  NestedTrace::enter_forward(row);
  backend_->push_range(name_of("fwd/", row).c_str());
}

void emit_nvtx::leave_forward(const OpRow& row) noexcept {
  backend_->pop_range();
  NestedTrace::leave_forward(row);
}

void emit_nvtx::enter_backward(const OpRow& row) {
  NestedTrace::enter_backward(row);
  backend_->push_range(name_of("bwd/", row).c_str());
}

void emit_nvtx::leave_backward(const OpRow& row, Inputs gy, Inputs gradients) {
  backend_->pop_range();
  NestedTrace::leave_backward(row, gy, gradients);
}

}  // namespace mezzo::gpu
