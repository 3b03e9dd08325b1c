// run_product: a matrix product on the device, by cuBLASLt or by Mezzo's own kernel. Parsed by g++
// and by nvcc.
#pragma once

#include "../../tensor/ops/matmul/product.h"
#include "blas.h"

namespace mezzo::gpu {

/** Enqueues the product. Does nothing if the plan has no result. Errors: CudaError. */
void run_product(const op::ProductPlan& plan, Device device);

/** Enqueues the product with a fused epilogue. Returns false if cuBLASLt does not support it, or if
 *  its results are not those of Mezzo's own kernels; all results are then still to be computed.
 *  Errors: CudaError. */
bool run_product_with(const blas::Epilogue& epilogue, const op::ProductPlan& plan, Device device,
                      const ResultPairs& pairs);

}  // namespace mezzo::gpu
