// The matrix product as cuBLASLt takes it: one struct, one call.
// Sees: ../tensor/dtype.h, runtime.h.
// Read next: blas.cpp (which algorithm), blas_calls.h (the library's calls), product.cpp (who calls
// it).
#pragma once

#include "../tensor/device.h"
#include "../tensor/dtype.h"
#include "runtime.h"

namespace mezzo::gpu::blas {

/** A batch of matrices whose rows lie side by side. */
struct Matrix {
  const void* data = nullptr;
  std::int64_t stride = 0;        // elements from one stored row to the next
  std::int64_t batch_stride = 0;  // elements from one matrix to the next; 0 where all are the same
  bool transposed = false;        // what is stored is the transpose of what is meant
};

/** What is done with a product beside adding the bias; to one, not to a batch. */
struct Epilogue {
  enum class Kind : std::uint8_t {
    none,
    relu,  // c = relu(c), nan stays; needs a bias; writes a mask of its positive elements to memory
    gate,  // c is 0 where the mask in memory says that the relu which wrote it gave 0
    gelu,  // c = gelu(c) in its tanh form; writes what it was taken of to memory, where there is any; needs a bias
    through_gelu,  // c times the gradient of that gelu at what lies in memory
    row_sums,      // writes the sums of a's rows, m elements, to memory
  };
  Kind kind = Kind::none;
  void* memory = nullptr;
  // From one row in memory to the next: elements behind gelu, bits of a mask; what a bit means the library alone knows.
  std::int64_t stride = 0;
};

/** Whether the result is one of a function that might lose a NaN. */
constexpr bool activates(Epilogue::Kind kind) {
  return kind == Epilogue::Kind::relu || kind == Epilogue::Kind::gelu;
}

/** c = alpha a b + beta addend + bias, for `batch` products of m x k and k x n. Sums in f32 (f64), one rounding. */
struct Gemm {
  DType dtype = DType::f32;  // of a and b
  // Of c, the addend and the bias: the same, or f32 behind 16 bits, and then without an epilogue.
  DType result = DType::f32;
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  Matrix a = {}, b = {}, c = {};  // c is not transposed
  Matrix addend = {};             // read where beta is not 0; not transposed; may be c itself
  const void* bias = nullptr;     // n elements added to every row
  double alpha = 1, beta = 0;
  Epilogue epilogue = {};
};

/** Puts the product into the stream. False where there is no cuBLASLt or it has no algorithm for
 *  this that works. Errors: CudaError where the device is broken; CapturePostponed where an
 *  algorithm fails within a capture. */
bool gemm(const Gemm& gemm, Device device, runtime::Stream stream);

/** Version of the library that was loaded, or why there is none. */
std::string description();

}  // namespace mezzo::gpu::blas
