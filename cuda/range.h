// Named stretches of time for NVIDIA's profilers: nsys and others show them above the kernels that run within.
// Sees: ../tensor. No CUDA header.
// Read next: range.cpp, ../tensor/nested_trace.h.
#pragma once

#include <string>

#include "../tensor/nested_trace.h"

namespace mezzo {
class Backend;
}  // namespace mezzo

namespace mezzo::gpu {

/** Names what this thread does until the end of the scope, in the NVTX domain "mezzo"; ranges nest. Nothing in a build without CUDA. */
class MZ_API Range {
 public:
  explicit Range(const std::string& name);
  ~Range();
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  const Backend* backend_;
};

/** Names every op of this thread until the end of the scope: "fwd/encoder.fc1/linear" while it runs, "bwd/encoder.fc1/linear" while its rule runs in
 *  a backward pass. Values and other observers stay as they are; a captured step shows the ranges of its capture only. */
class MZ_API emit_nvtx final : public NestedTrace {
 public:
  emit_nvtx();

  void enter_forward(const OpRow& row) override;
  void leave_forward(const OpRow& row) noexcept override;
  void enter_backward(const OpRow& row) override;
  void leave_backward(const OpRow& row, Inputs gy, Inputs gradients) override;

 private:
  const Backend* backend_;
};

}  // namespace mezzo::gpu
