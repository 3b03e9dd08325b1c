// Named time ranges for NVIDIA's profilers: nsys and others show them above the kernels that run
// within. Includes no CUDA header.
#pragma once

#include <string>

#include "../../tensor/core/dispatch.h"

namespace mezzo {
class Backend;
}  // namespace mezzo

namespace mezzo::gpu {

/** Scope that names this thread's work in the NVTX domain "mezzo". Ranges nest. Does nothing in a
 *  build without CUDA. */
class MZ_API Range {
 public:
  /** Opens the range under this name. */
  explicit Range(const std::string& name);
  ~Range();
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  const Backend* backend_;
};

/** Scope that names every op of this thread: "fwd/encoder.fc1/linear" while it runs,
 *  "bwd/encoder.fc1/linear" while its backward function runs. Values and other observers are not
 *  affected. A captured step shows the ranges of its capture only. */
class MZ_API emit_nvtx final : public NestedTrace {
 public:
  /** Opens the scope on the calling thread; does nothing in a build without CUDA. */
  emit_nvtx();

  /** Opens the range of an op; called by the dispatcher. */
  void enter_forward(const OpInfo& info) override;
  /** Closes the range of an op. */
  void leave_forward(const OpInfo& info) noexcept override;
  /** Opens the range of an op's backward function. */
  void enter_backward(const OpInfo& info) override;
  /** Closes the range of an op's backward function. */
  void leave_backward(const OpInfo& info, Inputs gy, Inputs gradients) override;

 private:
  const Backend* backend_;
};

}  // namespace mezzo::gpu
