#include "problem.h"

namespace mezzo::gpu::blas {

Description::Description(const Library& lt, const Gemm& gemm) : lt_(lt) {
  check(lt.cublasLtMatmulDescCreate(&handle_, compute_type(gemm.dtype),
                                    gemm.dtype == DType::f64 ? CUDA_R_64F : CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  set(CUBLASLT_MATMUL_DESC_TRANSA, gemm.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, gemm.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set_epilogue(gemm);
}

/** cuBLASLt's result is column-major, the transpose of ours: its bias runs along our columns, and
 *  BGRADB sums its second operand, our a, along k. */
void Description::set_epilogue(const Gemm& gemm) {
  using Kind = Epilogue::Kind;
  const Epilogue& e = gemm.epilogue;
  const void* bias = e.kind == Kind::row_sums ? e.memory : gemm.bias;
  cublasLtEpilogue_t name = gemm.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  if (e.kind == Kind::relu) name = CUBLASLT_EPILOGUE_RELU_BIAS;
  if (e.kind == Kind::gelu)
    name = e.memory ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_BIAS;
  if (e.kind == Kind::through_gelu) name = CUBLASLT_EPILOGUE_DGELU;
  if (e.kind == Kind::row_sums) name = CUBLASLT_EPILOGUE_BGRADB;
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, name);
  if (bias) {
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, data_type(gemm.result));
  }
  if (e.stride > 0) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, e.memory);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, e.stride);
  }
}

Layout::Layout(const Library& lt, DType dtype, std::int64_t rows, std::int64_t columns,
               const Matrix& x, std::int64_t batch)
    : lt_(lt) {
  check(
      lt.cublasLtMatrixLayoutCreate(&handle_, data_type(dtype), static_cast<std::uint64_t>(columns),
                                    static_cast<std::uint64_t>(rows), x.stride),
      "cublasLtMatrixLayoutCreate");
  if (batch == 1) return;
  set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(batch));
  set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, x.batch_stride);
}

Problem::Problem(const Library& lt, const Gemm& g)
    : description(lt, g),
      a(lt, g.dtype, g.a.transposed ? g.k : g.m, g.a.transposed ? g.m : g.k, g.a, g.batch),
      b(lt, g.dtype, g.b.transposed ? g.n : g.k, g.b.transposed ? g.k : g.n, g.b, g.batch),
      addend(lt, g.result, g.m, g.n, g.beta == 0 ? g.c : g.addend, g.batch),
      c(lt, g.result, g.m, g.n, g.c, g.batch) {}

}  // namespace mezzo::gpu::blas
