// run_product: a matrix product on the device, by cuBLASLt where it fits, else by the kernel of this room.
// Sees: ../tensor/ops/product.h, blas.h; parsed by nvcc too.
// Read next: product.cpp, kernels/recurrent.cu (a user).
#pragma once

#include "../tensor/ops/product.h"
#include "blas.h"

namespace mezzo::gpu {

/** Nothing is done where the plan has no result. Errors: CudaError. */
void run_product(const op::ProductPlan& plan, Device device);

/** The same and the epilogue, where cuBLASLt does both; else false, and nothing was done. Errors: CudaError. */
bool run_product_with(const blas::Epilogue& epilogue, const op::ProductPlan& plan, Device device);

}  // namespace mezzo::gpu
