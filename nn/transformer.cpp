#include "transformer.h"

#include <limits>

#include "../tensor/ops/elementwise/activation.h"
#include "../tensor/ops/elementwise/operators.h"
#include "../tensor/ops/linalg/triangle.h"
#include "../tensor/ops/shape/rearrange.h"
#include "../tensor/text/text.h"
#include "arguments.h"
#include "init.h"

namespace mezzo::nn {

Tensor generate_square_subsequent_mask(std::int64_t size, const TensorOptions& options) {
  if (options.dtype && !is_floating(*options.dtype))
    fail<DtypeError>("generate_square_subsequent_mask", {.what = "expected a floating-point dtype",
                                                         .got = std::string(name(*options.dtype)),
                                                         .expected = "a floating dtype"});
  return triu(full({size, size}, -std::numeric_limits<double>::infinity(), options), 1);
}

namespace {

MultiheadAttention attention_of(const TransformerSizes& s) {
  return {
      s.d_model,
      s.nhead,
      {.dropout = s.options.dropout, .bias = s.options.bias, .batch_first = s.options.batch_first}};
}

LayerNorm norm_of(const TransformerSizes& s) {
  return LayerNorm{s.d_model, {.eps = s.options.layer_norm_eps, .bias = s.options.bias}};
}

/** Returns x + block(x), normalised before the block or after the sum. */
template <class Block>
Tensor residual(const Tensor& x, const LayerNorm& norm, bool norm_first, const Block& block) {
  return norm_first ? x + block(norm(x)) : add_layer_norm(norm, x, block(x)).norm;
}

std::string summary_of(const TransformerSizes& s) {
  return str(s.d_model, ", ", s.nhead, ", feedforward ", s.options.dim_feedforward,
             s.options.batch_first ? ", batch_first" : "",
             s.options.norm_first ? ", norm_first" : "");
}

/** Returns a new layer with the values of `layer`. */
template <class Layer> Layer copy_of(const Layer& layer) {
  const TransformerSizes& s = layer.sizes();
  Layer copy{s.d_model, s.nhead, s.options};
  copy.load_state_dict(layer.state_dict());
  return copy;
}

template <class Layer>
ModuleList<Layer> copies_of(const char* kind, const Layer& layer, std::int64_t count) {
  detail::require_at_least(0, kind, "num_layers", count);
  ModuleList<Layer> layers;
  for (std::int64_t i = 0; i < count; ++i) layers.push_back(copy_of(layer));
  return layers;
}

}  // namespace

FeedForward::FeedForward(const TransformerSizes& s)
    : linear1(s.d_model, s.options.dim_feedforward, {.bias = s.options.bias}),
      linear2(s.options.dim_feedforward, s.d_model, {.bias = s.options.bias}),
      dropout(s.options.dropout),
      activation(s.options.activation) {}

Tensor FeedForward::operator()(const Tensor& x) const {
  const Tensor hidden = linear1(x);
  return linear2(dropout(activation == TransformerActivation::relu ? relu(hidden) : gelu(hidden)));
}

TransformerEncoderLayer::TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead,
                                                 const TransformerLayerOptions& options)
    : sizes_{d_model, nhead, options},
      self_attn_(add("self_attn", attention_of(sizes_))),
      net_(sizes_),
      norm1_(norm_of(sizes_)),
      norm2_(norm_of(sizes_)),
      dropout1_(options.dropout),
      dropout2_(options.dropout) {
  add("linear1", net_.linear1);
  add("dropout", net_.dropout);
  add("linear2", net_.linear2);
  add("norm1", norm1_);
  add("norm2", norm2_);
  add("dropout1", dropout1_);
  add("dropout2", dropout2_);
  set_summary(summary_of(sizes_));
}

Tensor TransformerEncoderLayer::forward(const Tensor& src, const EncoderCall& call) const {
  const bool norm_first = sizes_.options.norm_first;
  const Tensor seen = residual(src, norm1_, norm_first, [&](const Tensor& x) {
    return dropout1_(self_attn_(x, x, x,
                                AttentionCall{.key_padding_mask = call.src_key_padding_mask,
                                              .need_weights = false,
                                              .attn_mask = call.src_mask,
                                              .is_causal = call.is_causal})
                         .output);
  });
  return residual(seen, norm2_, norm_first, [&](const Tensor& x) { return dropout2_(net_(x)); });
}

TransformerDecoderLayer::TransformerDecoderLayer(std::int64_t d_model, std::int64_t nhead,
                                                 const TransformerLayerOptions& options)
    : sizes_{d_model, nhead, options},
      self_attn_(add("self_attn", attention_of(sizes_))),
      multihead_attn_(add("multihead_attn", attention_of(sizes_))),
      net_(sizes_),
      norm1_(norm_of(sizes_)),
      norm2_(norm_of(sizes_)),
      norm3_(norm_of(sizes_)),
      dropout1_(options.dropout),
      dropout2_(options.dropout),
      dropout3_(options.dropout) {
  add("linear1", net_.linear1);
  add("dropout", net_.dropout);
  add("linear2", net_.linear2);
  add("norm1", norm1_);
  add("norm2", norm2_);
  add("norm3", norm3_);
  add("dropout1", dropout1_);
  add("dropout2", dropout2_);
  add("dropout3", dropout3_);
  set_summary(summary_of(sizes_));
}

Tensor TransformerDecoderLayer::forward(const Tensor& tgt, const Tensor& memory,
                                        const DecoderCall& call) const {
  const bool norm_first = sizes_.options.norm_first;
  const Tensor own = residual(tgt, norm1_, norm_first, [&](const Tensor& x) {
    return dropout1_(self_attn_(x, x, x,
                                AttentionCall{.key_padding_mask = call.tgt_key_padding_mask,
                                              .need_weights = false,
                                              .attn_mask = call.tgt_mask,
                                              .is_causal = call.tgt_is_causal})
                         .output);
  });
  const Tensor both = residual(own, norm2_, norm_first, [&](const Tensor& x) {
    return dropout2_(multihead_attn_(x, memory, memory,
                                     AttentionCall{.key_padding_mask = call.memory_key_padding_mask,
                                                   .need_weights = false,
                                                   .attn_mask = call.memory_mask,
                                                   .is_causal = call.memory_is_causal})
                         .output);
  });
  return residual(both, norm3_, norm_first, [&](const Tensor& x) { return dropout3_(net_(x)); });
}

TransformerEncoder::TransformerEncoder(const TransformerEncoderLayer& layer,
                                       std::int64_t num_layers)
    : layers_(add("layers", copies_of("TransformerEncoder", layer, num_layers))) {}

TransformerEncoder::TransformerEncoder(const TransformerEncoderLayer& layer,
                                       std::int64_t num_layers, const LayerNorm& norm)
    : TransformerEncoder(layer, num_layers) {
  norm_ = add("norm", norm);
}

Tensor TransformerEncoder::forward(const Tensor& src, const EncoderCall& call) const {
  Tensor x = src;
  for (const TransformerEncoderLayer& layer : layers_) x = layer(x, call);
  return norm_ ? (*norm_)(x) : x;
}

TransformerDecoder::TransformerDecoder(const TransformerDecoderLayer& layer,
                                       std::int64_t num_layers)
    : layers_(add("layers", copies_of("TransformerDecoder", layer, num_layers))) {}

TransformerDecoder::TransformerDecoder(const TransformerDecoderLayer& layer,
                                       std::int64_t num_layers, const LayerNorm& norm)
    : TransformerDecoder(layer, num_layers) {
  norm_ = add("norm", norm);
}

Tensor TransformerDecoder::forward(const Tensor& tgt, const Tensor& memory,
                                   const DecoderCall& call) const {
  Tensor x = tgt;
  for (const TransformerDecoderLayer& layer : layers_) x = layer(x, memory, call);
  return norm_ ? (*norm_)(x) : x;
}

namespace {

TransformerSizes sizes_of(const TransformerOptions& o) {
  return {o.d_model,
          o.nhead,
          {o.dim_feedforward, o.dropout, o.activation, o.layer_norm_eps, o.batch_first,
           o.norm_first, o.bias}};
}

template <class Stack, class Layer>
Stack stack_of(const TransformerSizes& s, std::int64_t num_layers) {
  return {Layer{s.d_model, s.nhead, s.options}, num_layers, norm_of(s)};
}

}  // namespace

Transformer::Transformer(const TransformerOptions& o)
    : encoder_(add("encoder", stack_of<TransformerEncoder, TransformerEncoderLayer>(
                                  sizes_of(o), o.num_encoder_layers))),
      decoder_(add("decoder", stack_of<TransformerDecoder, TransformerDecoderLayer>(
                                  sizes_of(o), o.num_decoder_layers))) {
  for (const Tensor& p : parameters())
    if (p.dim() > 1) init::xavier_uniform_(p);
}

Tensor Transformer::forward(const Tensor& src, const Tensor& tgt, const TransformerCall& c) const {
  const Tensor memory = encoder_(src, EncoderCall{.src_mask = c.src_mask,
                                                  .src_key_padding_mask = c.src_key_padding_mask,
                                                  .is_causal = c.src_is_causal});
  return decoder_(tgt, memory,
                  DecoderCall{.tgt_mask = c.tgt_mask,
                              .memory_mask = c.memory_mask,
                              .tgt_key_padding_mask = c.tgt_key_padding_mask,
                              .memory_key_padding_mask = c.memory_key_padding_mask,
                              .tgt_is_causal = c.tgt_is_causal,
                              .memory_is_causal = c.memory_is_causal});
}

}  // namespace mezzo::nn
