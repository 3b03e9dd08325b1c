// Chains of linear layers: the public op mlp, its links, and the fused gradients of a linear layer.
//
// The result of a link that ends in relu has a single consumer, the next link. That link sets its
// own input gradient to 0 where its input is 0, so the gradient that reaches a link has already
// passed through the link's relu. Thus relu is fused into the matrix products in both directions. A
// link that ends in gelu also returns its pre-activation sums. The next link's gradient is taken
// with respect to these sums.
//
// The gradient of a bias before an activation is the column sums of what the next link computes. If
// they are not computed with the weight's gradient, that link has the bias as an operand and
// returns its gradient: a device can add the columns while it applies the derivative.
#pragma once

#include "../elementwise/activation.h"
#include "matmul.h"
#include "product.h"

namespace mezzo::op {

/** Linear layers with an activation between them. Operands: x, then weight and bias (or undefined)
 *  of each layer. */
struct Mlp {
  static constexpr OpTraits traits{.name = "mlp",
                                   .precision = Precision::low,
                                   .summary = "linear layers with an activation between them",
                                   .inputs = kVariadic};
  struct Attrs {
    MlpActivation activation = MlpActivation::relu;
    bool activates_last = false;
  };
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

/** One layer of the chain. Operands: x, weight, bias (or undefined), the second result of the link
 *  that produced x (or undefined), and the bias of that link, whose gradient this one computes (or
 *  undefined). Results: x W^T + b after the activation; after gelu x W^T + b itself, else nothing.
 */
struct LinearLink {
  static constexpr OpTraits traits{
      .name = "linear_link",
      .precision = Precision::match,
      .inputs = 5,
      .outputs = 2,
      .needs = {input(0) | input(1) | input(3) | output(1), input(0) | output(1), output(1),
                input(0) | input(1) | input(3), input(0) | input(1) | input(3) | output(1)},
      .widens_weight_gradient = true,
      .internal = true};
  struct Attrs {
    // Activation after the layer. Unless none, the only consumer of the results is a link with this
    // `before`.
    MlpActivation after = MlpActivation::none;
    MlpActivation before = MlpActivation::none;  // activation of the link that produced x
    bool keeps_sums = false;                     // gelu: the gradient will be needed
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Gradient of a link's input: g W times the derivative of the activation that produced x.
 *  Operands: g [.., out], weight [out, in], x [.., in] and the second result of the link that
 *  produced x (or undefined). Results: the gradient, and its column sums [in], if they are wanted,
 *  rounded to its dtype. */
struct LinearInputGrad {
  static constexpr OpTraits traits{.name = "linear_input_grad",
                                   .precision = Precision::match,
                                   .inputs = 4,
                                   .outputs = 2,
                                   .differentiable = false,
                                   .internal = true};
  struct Attrs {
    MlpActivation before = MlpActivation::relu;
    bool sums = false;  // the column sums are wanted
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

/** Gradients of a linear layer's weight and bias. Operands: g [rows, out], x [rows, in]. Results:
 *  g^T x, and the column sums of g, if they are wanted, rounded to their dtype. */
struct LinearWeightGrads {
  static constexpr OpTraits traits{.name = "linear_weight_grads",
                                   .precision = Precision::match,
                                   .inputs = 2,
                                   .outputs = 2,
                                   .differentiable = false,
                                   .internal = true};
  struct Attrs {
    // The dtype in which the weight's gradient is stored, after it is rounded: that of g, or f32.
    std::optional<DType> weight = {};
    bool sums = true;  // the column sums are wanted
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

using LinearChainOps = type_list<LinearInputGrad, LinearLink, LinearWeightGrads, Mlp>;

Product product_of(std::type_identity<LinearInputGrad>, Inputs in, Outputs out);
Product product_of(std::type_identity<LinearLink>, Inputs in, Outputs out);
Product product_of(std::type_identity<LinearWeightGrads>, Inputs in, Outputs out);

constexpr Gelu::Attrs gelu_attrs(MlpActivation activation) {
  return {activation == MlpActivation::gelu_tanh ? Gelu::Form::tanh : Gelu::Form::exact};
}

/** Returns true if the gradient of a bias is computed with that of the weight, by a device that
 * can: where that saves a launch and the product takes little time. On an H200 (cuBLASLt 13.1)
 * products with these sums exist for f16 in old kernels only, which take 1.4 times the time of a
 * product and Mezzo's sums, and the sums of bf16 are a kernel of their own, which is slower than
 * Mezzo's. */
inline bool sums_with_product(DType dtype, double multiplications) {
  constexpr double kLittle = 1 << 26;
  return dtype != DType::bf16 && multiplications <= kLittle;
}

// Steps that a device runs separately if its matrix product cannot fuse them.

/** Computes y = activation(x) with the device's kernel; y has x's shape and may be x itself. */
void activate(const Tensor& x, Tensor& y, MlpActivation activation);
/** Multiplies g by the derivative of the activation: from the result y for relu, from the
 *  pre-activation sums for gelu. */
void differentiate_in_place(Tensor& g, const Tensor& y_or_sums, MlpActivation activation);
/** Computes the column sums of g, [.., columns], which is contiguous unless it is a matrix. */
void sum_columns(const Tensor& g, Tensor& sums);

}  // namespace mezzo::op
