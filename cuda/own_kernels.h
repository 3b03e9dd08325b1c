// OwnKernels: a scope that disables cuBLASLt, cuDNN and CUB. Parsed by g++ and by nvcc.
#pragma once

#include "../tensor/core/macros.h"

namespace mezzo::gpu {

/** Scope in which the ops of this thread use Mezzo's own kernels only, for comparisons with the
 *  libraries. Scopes nest. */
class MZ_API OwnKernels {
 public:
  OwnKernels();
  ~OwnKernels();
  OwnKernels(const OwnKernels&) = delete;
  OwnKernels& operator=(const OwnKernels&) = delete;

  /** Returns true if this thread is in such a scope. */
  static bool active();

 private:
  bool outer_;
};

}  // namespace mezzo::gpu
