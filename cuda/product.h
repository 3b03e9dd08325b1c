// run_product: a matrix product on the device, by cuBLASLt where it fits, else by the kernel of this room.
// Sees: ../tensor/ops/product.h; parsed by nvcc too.
// Read next: product.cpp, kernels/recurrent.cu (a user).
#pragma once

#include "../tensor/ops/product.h"

namespace mezzo::gpu {

/** Nothing is done where the plan has no result. Errors: CudaError. */
void run_product(const op::ProductPlan& plan, Device device);

}  // namespace mezzo::gpu
