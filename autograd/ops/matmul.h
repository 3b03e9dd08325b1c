// Matrix products, linear layers, inner products.
// Sees: tensor.
// Read next: ../../tensor/ops/matmul.h, ../../tensor/ops/addmm.h.
//
// All but mlp take integers too, as in PyTorch: sums are modulo 2^bits. Bools are refused.
#pragma once

#include <vector>

#include "../../tensor/mlp_activation.h"
#include "../../tensor/tensor.h"

namespace mezzo {

/** Matrix product of the last two dimensions; the others are a batch and broadcast. A 1-D tensor is a row on the left and a column on the right,
 *  and that dimension is gone from the result: two of them give their inner product.
 *  Shape: [..., m, k] and [..., k, n] give [..., m, n]; an inner size of 0 gives zeros.
 *  Precision: low; f16, bf16 and f32 accumulate in f32 over the whole inner dimension, one rounding.
 *  Gradient: g B^T and A^T g, summed over broadcast dimensions before the rounding.
 *  Errors: ShapeError; DtypeError unless both have one dtype of numbers. */
MZ_API Tensor matmul(const Tensor& a, const Tensor& b);

/** Product of two matrices. Shape: [m, k] and [k, n] give [m, n]. Precision, gradient and errors as matmul. */
MZ_API Tensor mm(const Tensor& a, const Tensor& b);
/** Products of pairs of matrices. Shape: [b, m, k] and [b, k, n] give [b, m, n]. Precision, gradient and errors as matmul. */
MZ_API Tensor bmm(const Tensor& a, const Tensor& b);
/** Product of a matrix and a vector. Shape: [n, m] and [m] give [n]. Precision, gradient and errors as matmul. */
MZ_API Tensor mv(const Tensor& a, const Tensor& v);

/** x W^T + bias over the last dimension of x; the bias is added before the rounding.
 *  Shape: x [..., in], weight [out, in], bias [out] or what broadcasts to the result [..., out]; an undefined bias adds nothing.
 *  Precision: low, as matmul.   Gradient: g W for x, g^T x for the weight, the sum of g for the bias.
 *  Errors: ShapeError; DtypeError unless all have one dtype of numbers. */
MZ_API Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

/** What follows the layers of an mlp. apex.mlp activates the last one too. */
struct MlpOptions {
  MlpActivation activation = MlpActivation::relu;
  bool activates_last = false;
};

/** Linear layers with an activation between them, as one op: what linear() and the activation give one after the other, bit for bit, in fewer
 *  launches on a GPU, where bias, relu and, in 16 bits, gelu_tanh ride on the matrix products in both directions. There gelu_tanh takes sums that were not
 *  rounded before.
 *  Shape: x [..., in], each weight [out, in of it], biases as many as weights, each [out] or undefined, or none at all.
 *  Precision: low, all operands together (apex registers its mlp as a half function).   Gradient: as of its parts.
 *  Errors: ValueError without a weight or with another number of biases; ShapeError; DtypeError unless
 *  all have one floating dtype.
 *  Source: apex.mlp; apex.fused_dense.FusedDenseGeluDense. */
MZ_API Tensor mlp(const Tensor& x, const std::vector<Tensor>& weights, const std::vector<Tensor>& biases = {},
                  const MlpOptions& options = {});

/** Inner product of two vectors of equal length, as a 0-dim tensor.
 *  Precision: widest; accumulates in f32 (f64 when either is f64).   Gradient: g b, g a.   Errors: ShapeError, DtypeError. */
MZ_API Tensor dot(const Tensor& a, const Tensor& b);
/** Inner products along the last dimension; the others broadcast. Shape: [..., n] and [..., n] give [...].
 *  Precision: low.   Gradient: g b, g a.   Errors: ShapeError, DtypeError. */
MZ_API Tensor vecdot(const Tensor& a, const Tensor& b);
/** Outer product of two vectors. Shape: [n] and [m] give [n, m]. Precision: low. Errors: ShapeError, DtypeError. */
MZ_API Tensor outer(const Tensor& u, const Tensor& v);

/** Factors of the added tensor and of the product; of integers integers, else ValueError. */
struct AddmmOptions {
  double beta =
      1;  // 0: the added tensor is not read, so its nan and inf do not spread, and its gradient is 0
  double alpha = 1;
};

/** beta * c + alpha * a b, one rounding. Shape: a [n, m], b [m, p]; c broadcasts to [n, p]. Precision: low.
 *  Gradient: beta g summed to c's shape, alpha g b^T, alpha a^T g.   Errors: ShapeError, DtypeError. */
MZ_API Tensor addmm(const Tensor& c, const Tensor& a, const Tensor& b, const AddmmOptions& options = {});
/** beta * c + alpha * a v. Shape: a [n, m], v [m]; c broadcasts to [n]. Otherwise as addmm. */
MZ_API Tensor addmv(const Tensor& c, const Tensor& a, const Tensor& v, const AddmmOptions& options = {});
/** beta * c + alpha * u v^T. Shape: u [n], v [m]; c broadcasts to [n, m]. Otherwise as addmm. */
MZ_API Tensor addr(const Tensor& c, const Tensor& u, const Tensor& v, const AddmmOptions& options = {});
/** beta * c + alpha * (sum over i of a[i] b[i]). Shape: a [k, n, m], b [k, m, p]; c broadcasts to [n, p]. Otherwise as addmm. */
MZ_API Tensor addbmm(const Tensor& c, const Tensor& a, const Tensor& b, const AddmmOptions& options = {});
/** beta * c + alpha * a[i] b[i] for each i. Shape: a [k, n, m], b [k, m, p]; c broadcasts to [k, n, p]. Otherwise as addmm. */
MZ_API Tensor baddbmm(const Tensor& c, const Tensor& a, const Tensor& b, const AddmmOptions& options = {});

/** In-place forms: overwrite c, whose shape is the result's, and return it. */
MZ_API const Tensor& addmm_(const Tensor& c, const Tensor& a, const Tensor& b,
                            const AddmmOptions& options = {});
MZ_API const Tensor& addmv_(const Tensor& c, const Tensor& a, const Tensor& v,
                            const AddmmOptions& options = {});
MZ_API const Tensor& addr_(const Tensor& c, const Tensor& u, const Tensor& v,
                           const AddmmOptions& options = {});
MZ_API const Tensor& addbmm_(const Tensor& c, const Tensor& a, const Tensor& b,
                             const AddmmOptions& options = {});
MZ_API const Tensor& baddbmm_(const Tensor& c, const Tensor& a, const Tensor& b,
                              const AddmmOptions& options = {});

}  // namespace mezzo
