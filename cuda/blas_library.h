// cuBLASLt as it is called here: its functions, loaded when first asked for, and what its answers mean.
// Sees: shared_library.h, ../tensor/dtype.h.
// Read next: blas_library.cpp, blas_problem.h.
#pragma once

#include <cublasLt.h>

#include <string>

#include "../tensor/dtype.h"
#include "place.h"
#include "shared_library.h"

namespace mezzo::gpu::blas {

/** The functions of cuBLASLt that are called here. */
class Library {
 public:
  static const Library& get();

  bool usable() const { return file_.usable(); }
  const std::string& missing() const { return file_.missing(); }

#define MZ_CUBLASLT_FUNCTIONS(F)          \
  F(cublasLtCreate)                       \
  F(cublasLtGetVersion)                   \
  F(cublasLtMatmul)                       \
  F(cublasLtMatmulAlgoGetHeuristic)       \
  F(cublasLtMatmulDescCreate)             \
  F(cublasLtMatmulDescDestroy)            \
  F(cublasLtMatmulDescSetAttribute)       \
  F(cublasLtMatmulPreferenceCreate)       \
  F(cublasLtMatmulPreferenceDestroy)      \
  F(cublasLtMatmulPreferenceSetAttribute) \
  F(cublasLtMatrixLayoutCreate)           \
  F(cublasLtMatrixLayoutDestroy)          \
  F(cublasLtMatrixLayoutSetAttribute)
#define MZ_DECLARE(name) decltype(&::name) name = nullptr;
  MZ_CUBLASLT_FUNCTIONS(MZ_DECLARE)
#undef MZ_DECLARE

 private:
  Library();

  SharedLibrary file_;
};

/** Errors: CudaError naming the call unless the library did it. */
void check(cublasStatus_t status, const char* call, CallPlace place = CallPlace::current());

cudaDataType_t data_type(DType dtype);
/** What sums run in; factors in f32 may be rounded to TF32 where that is allowed. */
cublasComputeType_t compute_type(DType dtype);

}  // namespace mezzo::gpu::blas
