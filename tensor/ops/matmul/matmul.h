// Matrix products, linear layers and inner products. ops.h explains the notation and the precision
// tags.
//
// As in PyTorch, all but mlp take integers too; their sums wrap around modulo 2^bits. Bools throw
// DtypeError.
#pragma once

#include <cstdint>
#include <vector>

#include "../../core/op.h"
#include "../../core/tensor.h"

namespace mezzo {

/** The activation after each layer of an mlp. gelu_tanh is the tanh approximation of gelu. */
enum class MlpActivation : std::uint8_t { none, relu, sigmoid, gelu, gelu_tanh };

/** Returns true for both forms of gelu. */
constexpr bool is_gelu(MlpActivation activation) {
  return activation == MlpActivation::gelu || activation == MlpActivation::gelu_tanh;
}

/** Returns the matrix product of the last two dimensions; the others are a batch and broadcast. A
 *  1-D tensor is a row on the left and a column on the right; the result lacks that dimension. Two
 *  1-D tensors give their inner product.
 *  Shape: [..., m, k] and [..., k, n] give [..., m, n]; an inner size of 0 gives zeros.
 *  Precision: low; f16, bf16 and f32 accumulate in f32 over the whole inner dimension, one
 *  rounding.
 *  Gradient: g B^T for a, A^T g for b, summed over broadcast dimensions before the rounding.
 *  Errors: ShapeError; DtypeError unless both have one dtype of numbers. */
MZ_API Tensor matmul(const Tensor& a, const Tensor& b);

/** Returns the product of two matrices.
 *  Shape: [m, k] and [k, n] give [m, n].
 *  Precision, gradient and errors: as matmul. */
MZ_API Tensor mm(const Tensor& a, const Tensor& b);
/** Returns the products of pairs of matrices.
 *  Shape: [b, m, k] and [b, k, n] give [b, m, n].
 *  Precision, gradient and errors: as matmul. */
MZ_API Tensor bmm(const Tensor& a, const Tensor& b);
/** Returns the product of a matrix and a vector.
 *  Shape: [n, m] and [m] give [n].
 *  Precision, gradient and errors: as matmul. */
MZ_API Tensor mv(const Tensor& a, const Tensor& v);

/** Returns x W^T + bias over the last dimension of x; the bias is added before the rounding.
 *  Shape: x [..., in], weight [out, in], bias [out] or what broadcasts to the result [..., out]; an
 *  undefined bias adds nothing.
 *  Precision: low, as matmul.
 *  Gradient: g W for x, g^T x for weight, the sum of g for bias.
 *  Errors: ShapeError; DtypeError unless all have one dtype of numbers. */
MZ_API Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

/** Options of mlp. */
struct MlpOptions {
  MlpActivation activation = MlpActivation::relu;  // follows each layer but the last
  bool activates_last = false;                     // follows the last layer too, as in apex.mlp
};

/** Computes linear layers with an activation between them, as one op. The result has the same bits
 *  as linear() and the activation one after the other. On a GPU it takes fewer launches: bias, relu
 *  and, in 16 bits, gelu_tanh are fused into the matrix products in both directions. Fused
 *  gelu_tanh reads sums that were not rounded first, so its result may differ.
 *  Shape: x [..., in]; each weight [out, in of that layer]; as many biases as weights, each [out]
 *  or undefined, or no biases at all.
 *  Precision: low, all operands together (apex registers its mlp as a half function).
 *  Gradient: that of linear() and the activation.
 *  Errors: ValueError without a weight or with another number of biases; ShapeError; DtypeError
 *  unless all have one floating-point dtype.
 *  Source: apex.mlp; apex.fused_dense.FusedDenseGeluDense. */
MZ_API Tensor mlp(const Tensor& x, const std::vector<Tensor>& weights,
                  const std::vector<Tensor>& biases = {}, const MlpOptions& options = {});

/** Returns the inner product of two vectors of equal length as a 0-dim tensor.
 *  Precision: promote; accumulates in f32 (f64 when either is f64).
 *  Gradient: g b for a, g a for b.
 *  Errors: ShapeError, DtypeError. */
MZ_API Tensor dot(const Tensor& a, const Tensor& b);
/** Returns the inner products along the last dimension; the others broadcast.
 *  Shape: [..., n] and [..., n] give [...].
 *  Precision: low.
 *  Gradient: g b for a, g a for b.
 *  Errors: ShapeError, DtypeError. */
MZ_API Tensor vecdot(const Tensor& a, const Tensor& b);
/** Returns the outer product of two vectors.
 *  Shape: [n] and [m] give [n, m].
 *  Precision: low.
 *  Errors: ShapeError, DtypeError. */
MZ_API Tensor outer(const Tensor& u, const Tensor& v);

/** Factors of the added tensor and of the product. Integer tensors need integer factors, else
 *  ValueError. */
struct AddmmOptions {
  /** Factor of the added tensor. With 0 the tensor is not read: its nan and inf do not propagate,
   *  and its gradient is 0. */
  double beta = 1;
  double alpha = 1;  // factor of the product
};

/** Returns beta * c + alpha * a b, rounded once.
 *  Shape: a [n, m], b [m, p]; c broadcasts to [n, p].
 *  Precision: low.
 *  Gradient: beta g summed to c's shape for c, alpha g b^T for a, alpha a^T g for b.
 *  Errors: ShapeError, DtypeError. */
MZ_API Tensor addmm(const Tensor& c, const Tensor& a, const Tensor& b,
                    const AddmmOptions& options = {});
/** Returns beta * c + alpha * a v, as addmm does.
 *  Shape: a [n, m], v [m]; c broadcasts to [n]. */
MZ_API Tensor addmv(const Tensor& c, const Tensor& a, const Tensor& v,
                    const AddmmOptions& options = {});
/** Returns beta * c + alpha * u v^T, as addmm does.
 *  Shape: u [n], v [m]; c broadcasts to [n, m]. */
MZ_API Tensor addr(const Tensor& c, const Tensor& u, const Tensor& v,
                   const AddmmOptions& options = {});
/** Returns beta * c + alpha * (sum over i of a[i] b[i]), as addmm does.
 *  Shape: a [k, n, m], b [k, m, p]; c broadcasts to [n, p]. */
MZ_API Tensor addbmm(const Tensor& c, const Tensor& a, const Tensor& b,
                     const AddmmOptions& options = {});
/** Returns beta * c + alpha * a[i] b[i] for each i, as addmm does.
 *  Shape: a [k, n, m], b [k, m, p]; c broadcasts to [k, n, p]. */
MZ_API Tensor baddbmm(const Tensor& c, const Tensor& a, const Tensor& b,
                      const AddmmOptions& options = {});

// In-place forms: they overwrite c, which has the shape of the result, and return it.
/** Overwrites c with addmm(c, a, b, options) and returns it. */
MZ_API const Tensor& addmm_(const Tensor& c, const Tensor& a, const Tensor& b,
                            const AddmmOptions& options = {});
/** Overwrites c with addmv(c, a, v, options) and returns it. */
MZ_API const Tensor& addmv_(const Tensor& c, const Tensor& a, const Tensor& v,
                            const AddmmOptions& options = {});
/** Overwrites c with addr(c, u, v, options) and returns it. */
MZ_API const Tensor& addr_(const Tensor& c, const Tensor& u, const Tensor& v,
                           const AddmmOptions& options = {});
/** Overwrites c with addbmm(c, a, b, options) and returns it. */
MZ_API const Tensor& addbmm_(const Tensor& c, const Tensor& a, const Tensor& b,
                             const AddmmOptions& options = {});
/** Overwrites c with baddbmm(c, a, b, options) and returns it. */
MZ_API const Tensor& baddbmm_(const Tensor& c, const Tensor& a, const Tensor& b,
                              const AddmmOptions& options = {});

}  // namespace mezzo

namespace mezzo::op {

/** A B for each pair of matrices of two 3-D tensors. */
struct Bmm {
  static constexpr OpTraits traits{.name = "bmm",
                                   .precision = Precision::low,
                                   .summary = "matrix products of two batches",
                                   .inputs = 2,
                                   .needs = {input(1), input(0)},
                                   .integers = Integers::keep};
  static OutSpecs infer(Inputs in, const NoAttrs&);
  static void cpu(Inputs in, Outputs out, const NoAttrs&);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Sum of the products of two vectors' elements, in the promoted dtype. */
struct Dot {
  static constexpr OpTraits traits{.name = "dot",
                                   .precision = Precision::promote,
                                   .summary = "inner product of two vectors",
                                   .inputs = 2,
                                   .needs = {input(1), input(0)},
                                   .integers = Integers::keep};
  static OutSpecs infer(Inputs in, const NoAttrs&);
  static void cpu(Inputs in, Outputs out, const NoAttrs&);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** x W^T + b over the last dimension of x. */
struct Linear {
  static constexpr OpTraits traits{.name = "linear",
                                   .precision = Precision::low,
                                   .summary = "x W^T + b over the last dimension",
                                   .inputs = 3,
                                   .needs = {input(1), input(0), kNothing},
                                   .widens_weight_gradient = true,
                                   .integers = Integers::keep};
  static OutSpecs infer(Inputs in, const NoAttrs&);
  static void cpu(Inputs in, Outputs out, const NoAttrs&);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** alpha * A B. The last two dimensions are matrices, the others are broadcast. A 1-D operand is a
 *  row on the left and a column on the right. */
struct MatMul {
  static constexpr OpTraits traits{.name = "matmul",
                                   .precision = Precision::low,
                                   .summary = "matrix product, batches broadcast",
                                   .inputs = 2,
                                   .needs = {input(1), input(0)},
                                   .integers = Integers::keep};
  struct Attrs {
    double alpha = 1;  // used by the gradients of addmm and others: product and factor round once
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Product of two matrices. */
struct Mm {
  static constexpr OpTraits traits{.name = "mm",
                                   .precision = Precision::low,
                                   .summary = "product of two matrices",
                                   .inputs = 2,
                                   .needs = {input(1), input(0)},
                                   .integers = Integers::keep};
  static OutSpecs infer(Inputs in, const NoAttrs&);
  static void cpu(Inputs in, Outputs out, const NoAttrs&);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Product of a matrix and a vector. */
struct Mv {
  static constexpr OpTraits traits{.name = "mv",
                                   .precision = Precision::low,
                                   .summary = "product of a matrix and a vector",
                                   .inputs = 2,
                                   .needs = {input(1), input(0)},
                                   .integers = Integers::keep};
  static OutSpecs infer(Inputs in, const NoAttrs&);
  static void cpu(Inputs in, Outputs out, const NoAttrs&);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Inner products along the last dimension, the others broadcast. */
struct Vecdot {
  static constexpr OpTraits traits{.name = "vecdot",
                                   .precision = Precision::low,
                                   .summary = "inner products along the last dimension",
                                   .inputs = 2,
                                   .needs = {input(1), input(0)},
                                   .integers = Integers::keep};
  static OutSpecs infer(Inputs in, const NoAttrs&);
  static void cpu(Inputs in, Outputs out, const NoAttrs&);
  static Grads backward(const Saved& saved, const Grads& gy);
};

using MatmulOps = type_list<Bmm, Dot, Linear, MatMul, Mm, Mv, Vecdot>;

}  // namespace mezzo::op
