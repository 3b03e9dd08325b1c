// scaled_dot_product_attention and its fused gradient.
// Sees: op.h, ../philox_stream.h.
// Read next: ../cpu/attention.cpp (kernels), ../../autograd/rules/attention.cpp (rule).
#pragma once

#include "../op.h"
#include "../philox_stream.h"

namespace mezzo::op {

struct AttentionAttrs {
  double scale = 1;
  bool is_causal = false;
  double dropout_p = 0;
  PhiloxStream
      stream{};  // element i of the dropout mask is that of the probabilities [..., l, s] in row-major order
};

/** softmax(scale q k^T + mask) v. Operands q [.., l, e], k [.., s, e], v [.., s, f], mask (bool, floating or undefined) that broadcasts to
 *  [.., l, s]. Results: y [.., l, f] and, in f32 (f64), each row's logarithm of the sum of exponentials, +inf for a row without any key. */
struct Attention {
  static constexpr Needs kAll = input(0) | input(1) | input(2) | input(3) | output(0) | output(1);
  static constexpr OpTraits traits{.name = "scaled_dot_product_attention",
                                   .precision = Precision::low,
                                   .summary = "softmax(scale q k^T + mask) v",
                                   .inputs = 4,
                                   .outputs = 2,
                                   .needs = {kAll, kAll, kAll, kAll}};
  using Attrs = AttentionAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Operands g, q, k, v, mask, and both results of the forward op; results the gradients of q, k, v and, where asked for, of the mask before
 *  its broadcast dimensions are summed. */
struct AttentionBackward {
  static constexpr OpTraits traits{.name = "attention_backward",
                                   .precision = Precision::match,
                                   .inputs = 7,
                                   .outputs = 4,
                                   .differentiable = false,
                                   .internal = true};
  struct Attrs {
    AttentionAttrs forward;
    bool mask_gradient = false;
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

using AttentionOps = type_list<Attention, AttentionBackward>;

/** The batch that q, k and v broadcast to. */
Shape attention_batch(const Tensor& q, const Tensor& k, const Tensor& v);

}  // namespace mezzo::op
