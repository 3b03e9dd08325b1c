// Chains of linear layers: the public row mlp, its links, and the gradients of a linear layer that are computed together.
// Sees: product.h, ../elementwise/activation.h, ../mlp_activation.h.
// Read next: ../cpu/matmul.cpp (kernels), ../../cuda/linear_chain.cpp (the device's), ../../autograd/rules/linear_chain.cpp (rules).
//
// A link that ends in relu has one reader, the next link, which sets its own input gradient to 0 where that input is 0. So the gradient that arrives at
// a link has been through its relu already, and both directions of relu ride on the matrix products. A link that ends in gelu hands its sums over as
// well, and the next link's gradient goes to them: there the link begins, whatever else its result is read by.
#pragma once

#include "../elementwise/activation.h"
#include "../mlp_activation.h"
#include "product.h"

namespace mezzo::op {

/** Operands: x, then weight and bias (or none) of each layer. */
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

/** Operands x, weight, bias (or none), and the second result of the link that x comes from (or none). Results: x W^T + b, after the activation asked
 *  for; behind relu a mask of its positive elements that the device keeps for itself, empty where it keeps none; behind gelu x W^T + b itself. */
struct LinearLink {
  static constexpr OpTraits traits{.name = "linear_link",
                                   .precision = Precision::match,
                                   .inputs = 4,
                                   .outputs = 2,
                                   .needs = {input(0) | input(1) | input(3) | output(1), input(0) | output(1),
                                             output(1), input(0) | input(1) | input(3)},
                                   .internal = true};
  struct Attrs {
    MlpActivation after =
        MlpActivation::none;  // not none: the one reader of the result is a link whose `before` it is
    MlpActivation before = MlpActivation::none;  // of the link whose result x is
    bool keeps_sums = false;                     // gelu: somebody will differentiate
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Operands g [.., out], weight [out, in], x [.., in] and what the link behind x gave beside it (or none). Result: g W through the gradient of the
 *  activation behind which x is. */
struct LinearInputGrad {
  static constexpr OpTraits traits{.name = "linear_input_grad",
                                   .precision = Precision::match,
                                   .inputs = 4,
                                   .differentiable = false,
                                   .internal = true};
  struct Attrs {
    MlpActivation before = MlpActivation::relu;
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

/** Operands g [rows, out], x [rows, in]. Results: g^T x and the column sums of g. */
struct LinearWeightGrads {
  static constexpr OpTraits traits{.name = "linear_weight_grads",
                                   .precision = Precision::match,
                                   .inputs = 2,
                                   .outputs = 2,
                                   .differentiable = false,
                                   .internal = true};
  static OutSpecs infer(Inputs in, const NoAttrs&);
  static void cpu(Inputs in, Outputs out, const NoAttrs&);
};

using LinearChainOps = type_list<LinearInputGrad, LinearLink, LinearWeightGrads, Mlp>;

Product product_of(std::type_identity<LinearInputGrad>, Inputs in, Outputs out);
Product product_of(std::type_identity<LinearLink>, Inputs in, Outputs out);
Product product_of(std::type_identity<LinearWeightGrads>, Inputs in, Outputs out);

constexpr Gelu::Attrs gelu_attrs(MlpActivation activation) {
  return {activation == MlpActivation::gelu_tanh ? Gelu::Form::tanh : Gelu::Form::exact};
}

/** Bits of a row of n elements in a link's mask: whole words of 128, as cuBLASLt has them. */
constexpr std::int64_t mask_bits(std::int64_t n) { return (n + 127) / 128 * 128; }

// The steps of which a device does those that its matrix product does not do on the way.

/** y = the activation of x, of the same shape or x itself, by the device's kernel. */
void activate(const Tensor& x, Tensor& y, MlpActivation activation);
/** g times the gradient of the activation: of relu by its result y, of gelu by the sums it was taken of. */
void differentiate_in_place(Tensor& g, const Tensor& y_or_sums, MlpActivation activation);
/** sums = the column sums of g. */
void sum_columns(const Tensor& g, Tensor& sums);

}  // namespace mezzo::op
