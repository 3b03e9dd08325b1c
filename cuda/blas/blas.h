// Matrix products by cuBLASLt: one struct, one call.
#pragma once

#include "../../tensor/core/dtype.h"
#include "../../tensor/device/device.h"
#include "../library_proof.h"
#include "../runtime/runtime.h"

namespace mezzo::gpu::blas {

/** A batch of matrices with contiguous rows. */
struct Matrix {
  const void* data = nullptr;
  std::int64_t stride = 0;        // elements from one stored row to the next
  std::int64_t batch_stride = 0;  // elements from one matrix to the next; 0 if all are the same
  bool transposed = false;        // the stored matrix is the transpose of the operand
};

/** A function fused into a product, beside the bias. Not available for batches. */
struct Epilogue {
  enum class Kind : std::uint8_t {
    none,
    relu,  // c = relu(c), which propagates NaN; needs a bias
    gelu,  // c = gelu(c), tanh form; writes the argument to memory unless that is null; needs a
           // bias
    through_gelu,  // c times the gradient of that gelu at the values in memory
    row_sums,      // writes the row sums of a (m elements) to memory
  };
  Kind kind = Kind::none;
  void* memory = nullptr;
  std::int64_t stride = 0;  // elements from one row in memory to the next, for gelu
};

/** Returns true for functions that might not propagate NaN. */
constexpr bool activates(Epilogue::Kind kind) {
  return kind == Epilogue::Kind::relu || kind == Epilogue::Kind::gelu;
}

/** c = alpha a b + beta addend + bias, for `batch` products of m x k and k x n. Accumulates in f32
 *  (f64 for f64) and rounds once. */
struct Gemm {
  DType dtype = DType::f32;  // dtype of a and b
  // Dtype of c, the addend and the bias: `dtype`, or f32 for 16-bit operands without an epilogue.
  DType result = DType::f32;
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  Matrix a = {}, b = {}, c = {};  // c is not transposed
  Matrix addend = {};             // read unless beta is 0; not transposed; may be c itself
  const void* bias = nullptr;     // n elements added to every row
  double alpha = 1, beta = 0;
  Epilogue epilogue = {};
};

/** Enqueues the product, of sizes that are not 0. Returns false if cuBLASLt is missing, has no
 *  working algorithm for it, or has results other than `pairs` contains of Mezzo's own; an empty
 *  `pairs` compares nothing. Errors: CudaError where the device is broken; CapturePostponed where
 *  an algorithm fails within a capture. */
bool gemm(const Gemm& gemm, Device device, runtime::Stream stream, const ResultPairs& pairs);

/** Returns the version of the loaded library, or the reason why it is missing. */
std::string description();

}  // namespace mezzo::gpu::blas
