// OwnKernels: a scope without cuBLASLt and cuDNN.
// Sees: ../tensor/macros.h; parsed by nvcc too.
// Read next: product.cpp, kernels/conv.cu (who ask), ../tests/gpu/smoke/run_row.cpp (a user).
#pragma once

#include "../tensor/macros.h"

namespace mezzo::gpu {

/** While it lives, the ops of this thread use the kernels of this room alone; programs that compare these with the
 *  libraries need it. Scopes nest. */
class MZ_API OwnKernels {
 public:
  OwnKernels();
  ~OwnKernels();
  OwnKernels(const OwnKernels&) = delete;
  OwnKernels& operator=(const OwnKernels&) = delete;

  /** Whether this thread is in such a scope. */
  static bool active();

 private:
  bool outer_;
};

}  // namespace mezzo::gpu
