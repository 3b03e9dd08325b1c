#include "library.h"

#include "../../tensor/core/error.h"
#include "../../tensor/core/numerics.h"
#include "../../tensor/text/text.h"

namespace mezzo::gpu::blas {

const Library& Library::get() {
  static const Library only;
  return only;
}

Library::Library() : file_(str("libcublasLt.so.", CUBLAS_VER_MAJOR)) {
#define MZ_LOAD(function) file_.load(function, #function);
  MZ_CUBLASLT_FUNCTIONS(MZ_LOAD)
#undef MZ_LOAD
  if (!usable()) return;
  const std::size_t version = cublasLtGetVersion();
  if (version / 10000 != CUBLAS_VER_MAJOR)
    file_.refuse(str("cuBLASLt ", static_cast<std::int64_t>(version),
                     " does not have the major version of the build, ", CUBLAS_VER_MAJOR));
}

void check(cublasStatus_t status, const char* call, CallPlace place) {
  if (status != CUBLAS_STATUS_SUCCESS)
    fail<CudaError>(call, {.what = "cuBLASLt returned an error",
                           .got = str("status ", static_cast<int>(status)),
                           .hint = str(place.file, ":", place.line)});
}

cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f16: return CUDA_R_16F;
    case DType::bf16: return CUDA_R_16BF;
    case DType::f32: return CUDA_R_32F;
    case DType::f64: return CUDA_R_64F;
    case DType::boolean:
    case DType::u8:
    case DType::i32:
    case DType::i64: break;
  }
  fail<DtypeError>("cuBLASLt", {.what = "unsupported dtype",
                                .got = std::string(name(dtype)),
                                .expected = "a floating-point dtype"});
}

cublasComputeType_t compute_type(DType dtype) {
  if (dtype == DType::f64) return CUBLAS_COMPUTE_64F;
  return dtype == DType::f32 && allow_tf32() ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

}  // namespace mezzo::gpu::blas
