// The transformer: encoder and decoder layers, stacks of them, and both together.
// Sees: attention.h, dropout.h, linear.h, norm.h, sequential.h.
// Read next: transformer.cpp, position.h (what tells steps apart).
#pragma once

#include "../autograd/ops/create.h"
#include "attention.h"
#include "dropout.h"
#include "norm.h"
#include "sequential.h"

namespace mezzo::nn {

/** Scores that keep each of `size` steps from seeing later ones, to be added: 0 up to the diagonal, -inf right of it. Shape: [size,size].
 *  Errors: ValueError for a negative size, DtypeError for integers. */
MZ_API Tensor generate_square_subsequent_mask(std::int64_t size, const TensorOptions& options = {});

enum class TransformerActivation : std::uint8_t { relu, gelu };

struct TransformerLayerOptions {
  std::int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  TransformerActivation activation = TransformerActivation::relu;
  double layer_norm_eps = 1e-5;
  bool batch_first = false;  // tensors are [N, T, E] instead of [T, N, E]
  bool norm_first = false;   // normalise what enters each block instead of what leaves it
  bool bias = true;
};

/** Masks as MultiheadAttention takes them. */
struct EncoderCall {
  Tensor src_mask = {};              // [T,T] or [N heads, T, T]
  Tensor src_key_padding_mask = {};  // [N,T]
  bool is_causal = false;
};
template <std::same_as<EncoderCall> T> auto fields(T& c) {
  return std::tie(c.src_mask, c.src_key_padding_mask);
}

struct DecoderCall {
  Tensor tgt_mask = {}, memory_mask = {};
  Tensor tgt_key_padding_mask = {}, memory_key_padding_mask = {};
  bool tgt_is_causal = false, memory_is_causal = false;
};
template <std::same_as<DecoderCall> T> auto fields(T& c) {
  return std::tie(c.tgt_mask, c.memory_mask, c.tgt_key_padding_mask, c.memory_key_padding_mask);
}

/** What encoder and decoder layers are made with. */
struct TransformerSizes {
  std::int64_t d_model = 512, nhead = 8;
  TransformerLayerOptions options = {};
};

/** The part of a layer that treats every step by itself: linear2(dropout(activation(linear1(x)))). */
struct MZ_API FeedForward {
  Linear linear1, linear2;
  Dropout dropout;
  TransformerActivation activation;

  explicit FeedForward(const TransformerSizes& sizes);
  Tensor operator()(const Tensor& x) const;
};

/** Self-attention, then a feed-forward net of each step, both with a residual: x = norm1(x + attention(x)), norm2(x + net(x)); with norm_first
 *  x = x + attention(norm1(x)), x + net(norm2(x)).
 *  Shape: [T,N,E], [N,T,E] with batch_first, or [T,E]; kept.
 *  Parameters: self_attn as MultiheadAttention, linear1 [F,E], linear2 [E,F], norm1, norm2 [E].
 *  Precision: of the parts.   Errors: ValueError as the parts; when called: ShapeError, DtypeError.
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

/** As the encoder's layer, with attention to the encoder's output (`memory`) between the two.
 *  Shape: tgt [T,N,E], memory [S,N,E], or as the encoder's; gives tgt's.
 *  Parameters: self_attn and multihead_attn as MultiheadAttention, linear1, linear2, norm1, norm2, norm3. */
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

/** num_layers layers made as `layer` and starting from its values, one upon the other, then `norm` if there is one.
 *    nn::TransformerEncoder encoder(nn::TransformerEncoderLayer{512, 8}, 6);
 *  Parameters: layers.0, layers.1, ..., norm.   Errors: ValueError for num_layers below 0; when called: as the layers. */
class MZ_API TransformerEncoder : public Model<TransformerEncoder> {
 public:
  TransformerEncoder(const TransformerEncoderLayer& layer, std::int64_t num_layers);
  TransformerEncoder(const TransformerEncoderLayer& layer, std::int64_t num_layers, const LayerNorm& norm);

  Tensor forward(const Tensor& src, const EncoderCall& call = {}) const;

  const ModuleList<TransformerEncoderLayer>& layers() const { return layers_; }

 private:
  ModuleList<TransformerEncoderLayer> layers_;
  std::optional<LayerNorm> norm_;
};

/** The same with decoder layers. */
class MZ_API TransformerDecoder : public Model<TransformerDecoder> {
 public:
  TransformerDecoder(const TransformerDecoderLayer& layer, std::int64_t num_layers);
  TransformerDecoder(const TransformerDecoderLayer& layer, std::int64_t num_layers, const LayerNorm& norm);

  Tensor forward(const Tensor& tgt, const Tensor& memory, const DecoderCall& call = {}) const;

  const ModuleList<TransformerDecoderLayer>& layers() const { return layers_; }

 private:
  ModuleList<TransformerDecoderLayer> layers_;
  std::optional<LayerNorm> norm_;
};

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

struct TransformerCall {
  Tensor src_mask = {}, tgt_mask = {}, memory_mask = {};
  Tensor src_key_padding_mask = {}, tgt_key_padding_mask = {}, memory_key_padding_mask = {};
  bool src_is_causal = false, tgt_is_causal = false, memory_is_causal = false;
};
template <std::same_as<TransformerCall> T> auto fields(T& c) {
  return std::tie(c.src_mask, c.tgt_mask, c.memory_mask, c.src_key_padding_mask, c.tgt_key_padding_mask,
                  c.memory_key_padding_mask);
}

/** An encoder and a decoder, each with a final norm. Shape: src [S,N,E] and tgt [T,N,E] give [T,N,E]; as the layers.
 *  Parameters: encoder.layers.0, ..., encoder.norm, decoder.layers.0, ..., decoder.norm; all matrices by xavier_uniform_, each on its own. */
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
