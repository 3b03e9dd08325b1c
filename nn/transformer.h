// Transformer encoder and decoder layers, stacks of them, and the full Transformer.
// See also: position.h (positional embeddings).
#pragma once

#include "../tensor/ops/create.h"
#include "attention.h"
#include "dropout.h"
#include "norm.h"
#include "sequential.h"

namespace mezzo::nn {

/** Returns an additive causal mask: 0 on and below the diagonal, -inf above it.
 *  Shape: [size,size].
 *  Errors: ValueError for a negative size, DtypeError for integers. */
MZ_API Tensor generate_square_subsequent_mask(std::int64_t size, const TensorOptions& options = {});

/** The nonlinearity of the feed-forward net. */
enum class TransformerActivation : std::uint8_t { relu, gelu };

/** Options of encoder and decoder layers. */
struct TransformerLayerOptions {
  std::int64_t dim_feedforward = 2048;  // hidden features of the feed-forward net
  double dropout = 0.1;                 // dropout probability in all blocks while training
  TransformerActivation activation = TransformerActivation::relu;  // of the feed-forward net
  double layer_norm_eps = 1e-5;                                    // added to the variances
  bool batch_first = false;  // tensors are [N, T, E] instead of [T, N, E]
  bool norm_first = false;   // normalises the input of each block instead of its output
  bool bias = true;          // adds biases to all parts
};

/** Masks of an encoder call, in the format of AttentionCall. */
struct EncoderCall {
  Tensor src_mask = {};              // [T,T] or [N heads, T, T]
  Tensor src_key_padding_mask = {};  // [N,T]
  bool is_causal = false;            // step i attends to steps 0..i only, besides the masks
};
template <std::same_as<EncoderCall> T> auto fields(T& c) {
  return std::tie(c.src_mask, c.src_key_padding_mask);
}

/** Masks of a decoder call, in the format of AttentionCall: tgt masks for self-attention, memory
 *  masks for attention to the encoder's output. */
struct DecoderCall {
  /** [T,T] or [N heads, T, T]. */
  Tensor tgt_mask = {}, memory_mask = {};  // [T,S] or [N heads, T, S]
  /** [N,T]. */
  Tensor tgt_key_padding_mask = {}, memory_key_padding_mask = {};  // [N,S]
  /** Makes step i of tgt attend to steps 0..i only, besides the masks. */
  bool tgt_is_causal = false, memory_is_causal = false;  // the same for steps 0..i of the memory
};
template <std::same_as<DecoderCall> T> auto fields(T& c) {
  return std::tie(c.tgt_mask, c.memory_mask, c.tgt_key_padding_mask, c.memory_key_padding_mask);
}

/** Constructor arguments of encoder and decoder layers. */
struct TransformerSizes {
  /** Number of features E. */
  std::int64_t d_model = 512, nhead = 8;  // number of attention heads; must divide d_model
  TransformerLayerOptions options = {};   // the other options of the layer
};

/** The feed-forward net of a layer, applied to each step separately:
 *  linear2(dropout(activation(linear1(x)))). */
struct MZ_API FeedForward {
  /** Layer from E to dim_feedforward features. */
  Linear linear1, linear2;           // layer back to E features
  Dropout dropout;                   // applied to the hidden features while training
  TransformerActivation activation;  // applied to the output of linear1

  /** Constructs from d_model and the options dim_feedforward, dropout, activation and bias. */
  explicit FeedForward(const TransformerSizes& sizes);
  /** Returns a tensor of x's shape, [..., E]. */
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
  /** Constructs a layer over d_model features, which nhead must divide. */
  TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead,
                          const TransformerLayerOptions& options = {});

  /** Returns the encoded sequence. */
  Tensor forward(const Tensor& src, const EncoderCall& call = {}) const;

  /** Returns the arguments of the constructor. */
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
  /** Constructs a layer over d_model features, which nhead must divide. */
  TransformerDecoderLayer(std::int64_t d_model, std::int64_t nhead,
                          const TransformerLayerOptions& options = {});

  /** Returns the decoded sequence; `memory` is the encoder's output. */
  Tensor forward(const Tensor& tgt, const Tensor& memory, const DecoderCall& call = {}) const;

  /** Returns the arguments of the constructor. */
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
  /** Constructs a stack without a final norm. */
  TransformerEncoder(const TransformerEncoderLayer& layer, std::int64_t num_layers);
  /** Constructs a stack whose output is normalised by `norm`, which is shared, not copied. */
  TransformerEncoder(const TransformerEncoderLayer& layer, std::int64_t num_layers,
                     const LayerNorm& norm);

  /** Returns the output of the last layer, normalised if the stack has a norm. Each layer gets the
   *  same masks. */
  Tensor forward(const Tensor& src, const EncoderCall& call = {}) const;

  /** Returns the layers, first to last. */
  const ModuleList<TransformerEncoderLayer>& layers() const { return layers_; }

 private:
  ModuleList<TransformerEncoderLayer> layers_;
  std::optional<LayerNorm> norm_;
};

/** Stack of decoder layers; parameters and errors as TransformerEncoder. */
class MZ_API TransformerDecoder : public Model<TransformerDecoder> {
 public:
  /** Constructs a stack without a final norm. */
  TransformerDecoder(const TransformerDecoderLayer& layer, std::int64_t num_layers);
  /** Constructs a stack whose output is normalised by `norm`, which is shared, not copied. */
  TransformerDecoder(const TransformerDecoderLayer& layer, std::int64_t num_layers,
                     const LayerNorm& norm);

  /** Returns the output of the last layer, normalised if the stack has a norm. Each layer gets the
   *  same memory and masks. */
  Tensor forward(const Tensor& tgt, const Tensor& memory, const DecoderCall& call = {}) const;

  /** Returns the layers, first to last. */
  const ModuleList<TransformerDecoderLayer>& layers() const { return layers_; }

 private:
  ModuleList<TransformerDecoderLayer> layers_;
  std::optional<LayerNorm> norm_;
};

/** Options of nn::Transformer. */
struct TransformerOptions {
  std::int64_t d_model = 512;           // number of features E
  std::int64_t nhead = 8;               // number of attention heads; must divide d_model
  std::int64_t num_encoder_layers = 6;  // 0: the encoder only normalises
  std::int64_t num_decoder_layers = 6;  // 0: the decoder only normalises
  std::int64_t dim_feedforward = 2048;  // hidden features of the feed-forward nets
  double dropout = 0.1;                 // dropout probability in all blocks while training
  TransformerActivation activation = TransformerActivation::relu;  // of the feed-forward nets
  double layer_norm_eps = 1e-5;                                    // added to the variances
  bool batch_first = false;  // tensors are [N, T, E] instead of [T, N, E]
  bool norm_first = false;   // normalises the input of each block instead of its output
  bool bias = true;          // adds biases to all parts
};

/** Masks of a call: src masks for the encoder, the others for the decoder. */
struct TransformerCall {
  Tensor src_mask = {},              // [S,S] or [N heads, S, S]
      tgt_mask = {},                 // [T,T] or [N heads, T, T]
      memory_mask = {};              // [T,S] or [N heads, T, S]
  Tensor src_key_padding_mask = {},  // [N,S]
      tgt_key_padding_mask = {},     // [N,T]
      memory_key_padding_mask = {};  // [N,S]
  bool src_is_causal = false,        /**< step i of src attends to steps 0..i only */
      tgt_is_causal = false,         /**< step i of tgt attends to steps 0..i only */
      memory_is_causal = false;      // step i of tgt attends to steps 0..i of the memory only
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
  /** Constructs an encoder and a decoder, each with a final norm. */
  explicit Transformer(const TransformerOptions& options = {});

  /** Returns the decoder's output for tgt, given the encoder's output for src. */
  Tensor forward(const Tensor& src, const Tensor& tgt, const TransformerCall& call = {}) const;

  /** Returns the encoder, for use without the decoder. */
  const TransformerEncoder& encoder() const { return encoder_; }
  /** Returns the decoder; its `memory` is the encoder's output. */
  const TransformerDecoder& decoder() const { return decoder_; }

 private:
  TransformerEncoder encoder_;
  TransformerDecoder decoder_;
};

}  // namespace mezzo::nn
