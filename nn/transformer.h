// Transformer encoder and decoder layers, stacks of them, and the full Transformer.
// See also: position.h (positional embeddings).
#pragma once

#include "../autograd/ops/create.h"
#include "attention.h"
#include "dropout.h"
#include "norm.h"
#include "sequential.h"

namespace mezzo::nn {

/** Returns an additive causal mask: 0 on and below the diagonal, -inf above it.
 *  Shape: [size,size].
 *  Errors: ValueError for a negative size, DtypeError for integers. */
MZ_API Tensor generate_square_subsequent_mask(std::int64_t size, const TensorOptions& options = {});

enum class TransformerActivation : std::uint8_t { relu, gelu };

struct TransformerLayerOptions {
  std::int64_t dim_feedforward = 2048;  // hidden features of the feed-forward net
  double dropout = 0.1;                 // dropout probability in all blocks while training
  TransformerActivation activation = TransformerActivation::relu;  // of the feed-forward net
  double layer_norm_eps = 1e-5;                                    // eps of the layer norms
  bool batch_first = false;  // tensors are [N, T, E] instead of [T, N, E]
  bool norm_first = false;   // normalises the input of each block instead of its output
  bool bias = true;          // adds biases to all parts
};

/** Masks of an encoder call, in the format of AttentionCall. */
struct EncoderCall {
  Tensor src_mask = {};              // [T,T] or [N heads, T, T]
  Tensor src_key_padding_mask = {};  // [N,T]
  bool is_causal = false;
};
template <std::same_as<EncoderCall> T> auto fields(T& c) {
  return std::tie(c.src_mask, c.src_key_padding_mask);
}

/** Masks of a decoder call, in the format of AttentionCall: tgt masks for self-attention, memory
 *  masks for attention to the encoder's output. */
struct DecoderCall {
  Tensor tgt_mask = {}, memory_mask = {};
  Tensor tgt_key_padding_mask = {}, memory_key_padding_mask = {};
  bool tgt_is_causal = false, memory_is_causal = false;
};
template <std::same_as<DecoderCall> T> auto fields(T& c) {
  return std::tie(c.tgt_mask, c.memory_mask, c.tgt_key_padding_mask, c.memory_key_padding_mask);
}

/** Constructor arguments of encoder and decoder layers. */
struct TransformerSizes {
  std::int64_t d_model = 512, nhead = 8;
  TransformerLayerOptions options = {};
};

/** The feed-forward net of a layer, applied to each step separately:
 *  linear2(dropout(activation(linear1(x)))). */
struct MZ_API FeedForward {
  Linear linear1, linear2;
  Dropout dropout;
  TransformerActivation activation;

  explicit FeedForward(const TransformerSizes& sizes);
  Tensor operator()(const Tensor& x) const;
};

/** Applies self-attention and a feed-forward net, both with a residual connection:
 *  x = norm1(x + attention(x)), result norm2(x + net(x)); with norm_first
 *  x = x + attention(norm1(x)), result x + net(norm2(x)).
 *  Shape: [T,N,E], [N,T,E] with batch_first, or [T,E]; the result has the same shape.
 *  Parameters: self_attn as MultiheadAttention, linear1 [F,E], linear2 [E,F], norm1, norm2 [E].
 *  Precision: of the parts.
 *  Errors: ValueError as the parts; calls throw ShapeError and DtypeError.
 *  Source: Vaswani et al., Attention is all you need (2017); norm_first: Xiong et al. (2020). */
class MZ_API TransformerEncoderLayer : public Model<TransformerEncoderLayer> {
 public:
  TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead,
                          const TransformerLayerOptions& options = {});

  Tensor forward(const Tensor& src, const EncoderCall& call = {}) const;

  const TransformerSizes& sizes() const { return sizes_; }

 private:
  TransformerSizes sizes_;
  MultiheadAttention self_attn_;
  FeedForward net_;
  LayerNorm norm1_, norm2_;
  Dropout dropout1_, dropout2_;
};

/** Applies self-attention, attention to the encoder's output (`memory`), and a feed-forward net,
 *  each with a residual connection as in TransformerEncoderLayer.
 *  Shape: tgt [T,N,E], memory [S,N,E], with batch_first and without a batch as
 *  TransformerEncoderLayer; the result has tgt's shape.
 *  Parameters: self_attn and multihead_attn as MultiheadAttention, linear1, linear2, norm1, norm2,
 *  norm3. */
class MZ_API TransformerDecoderLayer : public Model<TransformerDecoderLayer> {
 public:
  TransformerDecoderLayer(std::int64_t d_model, std::int64_t nhead,
                          const TransformerLayerOptions& options = {});

  Tensor forward(const Tensor& tgt, const Tensor& memory, const DecoderCall& call = {}) const;

  const TransformerSizes& sizes() const { return sizes_; }

 private:
  TransformerSizes sizes_;
  MultiheadAttention self_attn_, multihead_attn_;
  FeedForward net_;
  LayerNorm norm1_, norm2_, norm3_;
  Dropout dropout1_, dropout2_, dropout3_;
};

/** Stack of num_layers copies of `layer`, followed by `norm` if it is given. The copies start with
 *  the values of `layer`.
 *    nn::TransformerEncoder encoder(nn::TransformerEncoderLayer{512, 8}, 6);
 *  Parameters: layers.0, layers.1, ..., norm.
 *  Errors: ValueError for num_layers below 0; calls throw as the layers do. */
class MZ_API TransformerEncoder : public Model<TransformerEncoder> {
 public:
  TransformerEncoder(const TransformerEncoderLayer& layer, std::int64_t num_layers);
  TransformerEncoder(const TransformerEncoderLayer& layer, std::int64_t num_layers,
                     const LayerNorm& norm);

  Tensor forward(const Tensor& src, const EncoderCall& call = {}) const;

  const ModuleList<TransformerEncoderLayer>& layers() const { return layers_; }

 private:
  ModuleList<TransformerEncoderLayer> layers_;
  std::optional<LayerNorm> norm_;
};

/** Stack of decoder layers; parameters and errors as TransformerEncoder. */
class MZ_API TransformerDecoder : public Model<TransformerDecoder> {
 public:
  TransformerDecoder(const TransformerDecoderLayer& layer, std::int64_t num_layers);
  TransformerDecoder(const TransformerDecoderLayer& layer, std::int64_t num_layers,
                     const LayerNorm& norm);

  Tensor forward(const Tensor& tgt, const Tensor& memory, const DecoderCall& call = {}) const;

  const ModuleList<TransformerDecoderLayer>& layers() const { return layers_; }

 private:
  ModuleList<TransformerDecoderLayer> layers_;
  std::optional<LayerNorm> norm_;
};

// Fields as in TransformerSizes and TransformerLayerOptions.
struct TransformerOptions {
  std::int64_t d_model = 512;
  std::int64_t nhead = 8;
  std::int64_t num_encoder_layers = 6;
  std::int64_t num_decoder_layers = 6;
  std::int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  TransformerActivation activation = TransformerActivation::relu;
  double layer_norm_eps = 1e-5;
  bool batch_first = false;
  bool norm_first = false;
  bool bias = true;
};

/** Masks of a call: src masks for the encoder, the others for the decoder. */
struct TransformerCall {
  Tensor src_mask = {}, tgt_mask = {}, memory_mask = {};
  Tensor src_key_padding_mask = {}, tgt_key_padding_mask = {}, memory_key_padding_mask = {};
  bool src_is_causal = false, tgt_is_causal = false, memory_is_causal = false;
};
template <std::same_as<TransformerCall> T> auto fields(T& c) {
  return std::tie(c.src_mask, c.tgt_mask, c.memory_mask, c.src_key_padding_mask,
                  c.tgt_key_padding_mask, c.memory_key_padding_mask);
}

/** An encoder and a decoder, each with a final norm.
 *  Shape: src [S,N,E] and tgt [T,N,E] give [T,N,E]; with batch_first and without a batch as the
 *  layers.
 *  Parameters: encoder.layers.0, ..., encoder.norm, decoder.layers.0, ..., decoder.norm; all
 *  matrices are initialised separately by xavier_uniform_. */
class MZ_API Transformer : public Model<Transformer> {
 public:
  explicit Transformer(const TransformerOptions& options = {});

  Tensor forward(const Tensor& src, const Tensor& tgt, const TransformerCall& call = {}) const;

  const TransformerEncoder& encoder() const { return encoder_; }
  const TransformerDecoder& decoder() const { return decoder_; }

 private:
  TransformerEncoder encoder_;
  TransformerDecoder decoder_;
};

}  // namespace mezzo::nn
