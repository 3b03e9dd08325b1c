// Scaled dot product attention. ops.h explains the notation and the precision tags.
#pragma once

#include <array>
#include <optional>

#include "../../core/op.h"
#include "../../core/tensor.h"
#include "../../random/philox_stream.h"

namespace mezzo {

/** Options of scaled_dot_product_attention. */
struct AttentionOptions {
  /** bool: true where the query may attend to the key. Floating-point: added to the scores. It
   *  broadcasts to [..., l, s]. */
  Tensor mask = {};
  double dropout_p = 0;              // dropout of the probabilities; pass 0 outside training
  bool is_causal = false;            // query i attends to keys 0..i, whatever the lengths
  std::optional<double> scale = {};  // factor of the scores; not given: 1 / sqrt(e)
  bool enable_gqa = false;           // groups of query heads share a head of key and value
};

/** Returns softmax(scale q k^T + mask) v over the last two dimensions; the others are a batch and
 *  broadcast. A query without an unmasked key gives 0.
 *  Shape: query [..., l, e], key [..., s, e], value [..., s, f] give [..., l, f]. With enable_gqa
 *  query [..., h, l, e], key [..., k, s, e] and value [..., k, s, f], where h is a multiple of k:
 *  head i of the query uses head i / (h / k) of key and value, as in PyTorch.
 *  Precision: low; scores and softmax are computed in f32 (f64), one rounding. The whole matrix of
 *  scores is never stored, not in the backward pass either. Calls that cuDNN handles on a GPU round
 *  the probabilities too, and store up to 256 MiB each for gradients of scores, for a mask in f32,
 *  and for a mask of dropout; enable_cudnn_sdp(false) turns them off.
 *  Non-finite: nan or infinity in a key or value that a mask hides can make results nan.
 *  Gradient: for query, key, value and a floating-point mask; 0 for queries without an unmasked
 *  key. The backward pass uses the dropout mask of the forward pass.
 *  Errors: ShapeError, DtypeError; ValueError for a mask together with is_causal, and unless 0 <=
 *  dropout_p <= 1.
 *  Source: Vaswani et al., Attention is all you need (2017). */
MZ_API Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key,
                                           const Tensor& value,
                                           const AttentionOptions& options = {});

}  // namespace mezzo

namespace mezzo::op {

/** Attributes of attention. */
struct AttentionAttrs {
  double scale = 1;        // factor of q k^T
  bool is_causal = false;  // query i attends to keys 0..i only
  double dropout_p = 0;    // probability that an attention weight is set to 0
  // Random stream of the dropout mask, which is indexed like the probabilities [..., l, s] in
  // row-major order.
  PhiloxStream stream{};
};

/** softmax(scale q k^T + mask) v. Operands: q [.., l, e], k [.., s, e], v [.., s, f] and a mask
 *  (bool, floating or undefined) that broadcasts to [.., l, s]. Results: y [.., l, f] and, in f32
 *  (f64), the log-sum-exp of each row; it is +inf for a row in which every key is masked. */
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

/** Fused gradient. Operands: g, q, k, v, mask, and both results of the forward op. Results: the
 *  gradients of q, k, v and, if requested, of the mask before its broadcast dimensions are
 *  summed. */
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

/** Attention within one projection: queries, keys and values of all heads lie in it, and the
 *  results of the heads are written next to each other, without copies. Operand: qkv [n, t, 3 e].
 *  Results: y [n, t, e] and, in f32 (f64), the log-sum-exps [n, heads, t]. */
struct SelfAttention {
  static constexpr OpTraits traits{.name = "self_attention",
                                   .precision = Precision::low,
                                   .outputs = 2,
                                   .needs = {input(0) | output(0) | output(1)},
                                   .internal = true};
  struct Attrs {
    AttentionAttrs attention;
    std::int64_t heads = 1;  // divides e
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Fused gradient. Operands: g, qkv, and both results of the forward op. Result: the gradient of
 *  qkv. */
struct SelfAttentionBackward {
  static constexpr OpTraits traits{.name = "self_attention_backward",
                                   .precision = Precision::match,
                                   .inputs = 4,
                                   .differentiable = false,
                                   .internal = true};
  using Attrs = SelfAttention::Attrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

using AttentionOps = type_list<Attention, AttentionBackward, SelfAttention, SelfAttentionBackward>;

/** Returns the heads of rows [n, t, e], outside the graph: a view [n, heads, t, e / heads]. */
Tensor heads_of_rows(const Tensor& x, std::int64_t heads);
/** Returns queries, keys and values in a projection [n, t, 3 e], as heads_of_rows(). */
std::array<Tensor, 3> heads_of_projection(const Tensor& qkv, std::int64_t heads);

/** Returns the batch dimensions that q, k and v broadcast to. */
Shape attention_batch(const Tensor& q, const Tensor& k, const Tensor& v);

}  // namespace mezzo::op
