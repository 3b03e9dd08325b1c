// gemm: C = alpha A B + beta D over a batch, for operands of any strides and dtypes. Parsed by g++
// and by nvcc.
#pragma once

#include "../../tensor/ops/matmul/product.h"

namespace mezzo::gpu {

/** Computes the product. Accumulates in f32 (f64 if the result is f64), applies alpha and the
 *  addend in the same type and rounds once. Errors: CudaError. */
void gemm(const op::ProductPlan& plan, Device device);

}  // namespace mezzo::gpu
