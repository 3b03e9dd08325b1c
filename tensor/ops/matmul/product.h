// Product: every matrix product in one form, C = alpha A B + beta D over a batch of matrices. It
// maps the operands of matmul, linear, addmm and related ops to this form for all devices.
#pragma once

#include <optional>
#include <type_traits>

#include "addmm.h"
#include "matmul.h"

namespace mezzo::op {

/** c[..., m, n] = alpha * a[..., m, k] b[..., k, n] + beta * addend. Batch dimensions and the
 *  addend broadcast to those of c. */
struct Product {
  Tensor a, b, c;
  double alpha = 1, beta = 0;
  Tensor addend = {};  // undefined if beta is 0
  /** The 16-bit dtype to which results are rounded before they are stored in f32. */
  std::optional<DType> rounds_to = {};
};

// Return the operands of one call of an op as a Product.
Product product_of(std::type_identity<Addbmm>, Inputs in, Outputs out, const AddmmAttrs& attrs);
Product product_of(std::type_identity<Addmm>, Inputs in, Outputs out, const AddmmAttrs& attrs);
Product product_of(std::type_identity<Addmv>, Inputs in, Outputs out, const AddmmAttrs& attrs);
Product product_of(std::type_identity<Addr>, Inputs in, Outputs out, const AddmmAttrs& attrs);
Product product_of(std::type_identity<Baddbmm>, Inputs in, Outputs out, const AddmmAttrs& attrs);
Product product_of(std::type_identity<Bmm>, Inputs in, Outputs out, const NoAttrs&);
Product product_of(std::type_identity<Linear>, Inputs in, Outputs out, const NoAttrs&);
Product product_of(std::type_identity<MatMul>, Inputs in, Outputs out, const MatMul::Attrs& attrs);
Product product_of(std::type_identity<Mm>, Inputs in, Outputs out, const NoAttrs&);
Product product_of(std::type_identity<Mv>, Inputs in, Outputs out, const NoAttrs&);

/** A batch of matrices in memory: element (i, j) of a matrix is i * row + j * column elements after
 *  its first. */
struct MatrixBatch {
  void* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t row = 0, column = 0;
  Strides batch = {};         // of the batch dimensions, in elements; 0 if broadcast
  Storage* weight = nullptr;  // of b, if it is a weight of which packed copies may be kept
};

/** A product as addresses. Batches whose rows are contiguous are merged into one matrix. */
struct ProductPlan {
  std::int64_t m = 0, n = 0, k = 0;
  Shape batch = {};
  MatrixBatch a = {}, b = {}, c = {}, addend = {};
  double alpha = 1, beta = 0;
  std::optional<DType> rounds_to = {};
};
ProductPlan plan(const Product& product);

}  // namespace mezzo::op

namespace mezzo::cpu_kernels {

/** Computes the product. The entries of a batch run sequentially if they are large, else they are
 *  distributed over threads. */
void run_product(const op::ProductPlan& plan);

}  // namespace mezzo::cpu_kernels
