// gemm: C = alpha A B + beta D over a batch, for operands of any strides and dtypes.
// Sees: ../../tensor; parsed by nvcc too.
// Read next: gemm.cu, ../product.cpp (who calls it).
#pragma once

#include "../../tensor/ops/product.h"

namespace mezzo::gpu {

/** Sums run in f32 (f64 where the result is f64), alpha and the addend enter in the same type, then one rounding. Errors: CudaError. */
void gemm(const op::ProductPlan& plan, Device device);

}  // namespace mezzo::gpu
