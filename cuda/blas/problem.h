// The descriptors of a product for cuBLASLt. Row-major matrices are the transposes of column-major
// ones: C^T = B^T A^T, so b comes first.
#pragma once

#include "blas.h"
#include "library.h"

namespace mezzo::gpu::blas {

/** Descriptor of the operation; destroyed with its scope. */
class Description {
 public:
  Description(const Library& lt, const Gemm& gemm);
  ~Description() { lt_.cublasLtMatmulDescDestroy(handle_); }
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;
  operator cublasLtMatmulDesc_t() const { return handle_; }

 private:
  template <class T> void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    check(lt_.cublasLtMatmulDescSetAttribute(handle_, attribute, &value, sizeof value),
          "cublasLtMatmulDescSetAttribute");
  }
  void set_epilogue(const Gemm& gemm);

  const Library& lt_;
  cublasLtMatmulDesc_t handle_ = nullptr;
};

/** Descriptor of a stored row-major matrix of `rows` x `columns`; destroyed with its scope. */
class Layout {
 public:
  Layout(const Library& lt, DType dtype, std::int64_t rows, std::int64_t columns, const Matrix& x,
         std::int64_t batch);
  ~Layout() { lt_.cublasLtMatrixLayoutDestroy(handle_); }
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;
  operator cublasLtMatrixLayout_t() const { return handle_; }

 private:
  template <class T> void set(cublasLtMatrixLayoutAttribute_t attribute, const T& value) {
    check(lt_.cublasLtMatrixLayoutSetAttribute(handle_, attribute, &value, sizeof value),
          "cublasLtMatrixLayoutSetAttribute");
  }

  const Library& lt_;
  cublasLtMatrixLayout_t handle_ = nullptr;
};

/** All descriptors of a product. */
struct Problem {
  Description description;
  Layout a, b, addend, c;

  Problem(const Library& lt, const Gemm& gemm);
};

}  // namespace mezzo::gpu::blas
