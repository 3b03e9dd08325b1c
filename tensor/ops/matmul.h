// Matrix products without an added matrix: matmul and its strict forms, linear, dot products.
#pragma once

#include "../core/op.h"

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
