// gemm: C = alpha A B + beta D over a batch, for operands of any strides and dtypes.
// Sees: ../runtime.h, ../../tensor/dtype.h; parsed by nvcc too.
// Read next: gemm.cu, ../product.cpp (who calls it).
#pragma once

#include "../../tensor/dtype.h"
#include "../../tensor/shape.h"
#include "../runtime.h"

namespace mezzo::gpu {

/** A batch of matrices: element (i, j) of one lies i * row + j * column elements behind its first. */
struct GemmOperand {
  void* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t row = 0, column = 0;
  std::int64_t batch[Shape::kMaxRank] = {};  // in elements; 0 where broadcast
};

struct GemmCall {
  std::int64_t m = 0, n = 0, k = 0;
  int rank = 0;  // of the batch
  std::int64_t batch[Shape::kMaxRank] = {};
  GemmOperand a = {}, b = {}, c = {}, addend = {};
  double alpha = 1, beta = 0;  // with beta = 0 the addend is not read
};

/** Sums run in f32 (f64 where the result is f64) over the whole of k in one order, alpha and the addend enter in the same type, then one
 *  rounding. Errors: CudaError. */
void gemm(const GemmCall& call, runtime::Stream stream);

}  // namespace mezzo::gpu
