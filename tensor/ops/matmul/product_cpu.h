// run_product: a matrix product in the form of tensor/ops/matmul/product.h, on the CPU.
#pragma once

#include "product.h"

namespace mezzo::cpu_kernels {

/** Computes the product. The entries of a batch run sequentially if they are large, else they are
 *  distributed over threads. */
void run_product(const op::ProductPlan& plan);

}  // namespace mezzo::cpu_kernels
