// The functions of cuBLASLt, loaded at first use, and conversions of dtypes and statuses.
#pragma once

#include <cublasLt.h>

#include <string>

#include "../../tensor/core/dtype.h"
#include "../runtime/failed_call.h"
#include "../runtime/shared_library.h"

namespace mezzo::gpu::blas {

/** The loaded cuBLASLt and the functions in use. */
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

/** Throws CudaError, which names the call, unless the status is success. */
void check(cublasStatus_t status, const char* call, CallPlace place = CallPlace::current());

cudaDataType_t data_type(DType dtype);
/** Returns the type that a product accumulates in. f32 factors may be rounded to TF32 if that is
 *  allowed. */
cublasComputeType_t compute_type(DType dtype);

}  // namespace mezzo::gpu::blas
