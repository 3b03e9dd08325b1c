// run_product: a matrix product on the device, by cuBLASLt or by Mezzo's own kernel. Parsed by g++
// and by nvcc.
#pragma once

#include "../../tensor/ops/product.h"
#include "blas.h"

namespace mezzo::gpu {

/** Enqueues the product. Does nothing if the plan has no result. Errors: CudaError. */
void run_product(const op::ProductPlan& plan, Device device);

/** Enqueues the product with a fused epilogue. Returns false, with nothing done, if cuBLASLt does
 *  not support it. Errors: CudaError. */
bool run_product_with(const blas::Epilogue& epilogue, const op::ProductPlan& plan, Device device);

}  // namespace mezzo::gpu
