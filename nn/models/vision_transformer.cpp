#include "vision_transformer.h"

#include <cmath>

#include "../../tensor/ops/create.h"
#include "../../tensor/ops/elementwise/operators.h"
#include "../../tensor/ops/shape/join.h"
#include "../../tensor/text/text.h"
#include "../activation.h"
#include "../arguments.h"
#include "../attention.h"
#include "../dropout.h"
#include "../init.h"
#include "../linear.h"
#include "../norm.h"

namespace mezzo::nn::models {

namespace {

constexpr const char* kVisionTransformer = "VisionTransformer";
constexpr LayerNormLayerOptions kNorm{.eps = 1e-6};

/** Returns the options after checking them. */
const VisionTransformerOptions& checked(const VisionTransformerOptions& o) {
  nn::detail::require_at_least(1, kVisionTransformer, "image_size", o.image_size);
  nn::detail::require_at_least(1, kVisionTransformer, "patch_size", o.patch_size);
  nn::detail::require_at_least(1, kVisionTransformer, "num_layers", o.num_layers);
  if (o.image_size % o.patch_size != 0)
    fail<ValueError>(kVisionTransformer, {.what = "patch_size does not divide image_size",
                                          .got = str(o.image_size, " and ", o.patch_size)});
  return o;
}

/** Returns the feed-forward net of a block. */
Sequential feed_forward(const VisionTransformerOptions& o) {
  const Linear up{o.hidden_dim, o.mlp_dim}, down{o.mlp_dim, o.hidden_dim};
  for (const Linear& layer : {up, down}) {
    init::xavier_uniform_(layer.weight());
    init::normal_(layer.bias(), 0, 1e-6);
  }
  return Sequential{up, GELU{}, Dropout{o.dropout}, down, Dropout{o.dropout}};
}

/** Attention and a feed-forward net, each with layer norm on its input and a residual connection.
 */
struct EncoderBlock : Model<EncoderBlock> {
  explicit EncoderBlock(const VisionTransformerOptions& o)
      : ln_1(add("ln_1", LayerNorm{o.hidden_dim, kNorm})),
        self_attention(add(
            "self_attention",
            MultiheadAttention{
                o.hidden_dim, o.num_heads, {.dropout = o.attention_dropout, .batch_first = true}})),
        dropout(add("dropout", Dropout{o.dropout})),
        ln_2(add("ln_2", LayerNorm{o.hidden_dim, kNorm})),
        mlp(add("mlp", feed_forward(o))) {}

  Tensor forward(const Tensor& x) const {
    const Tensor normed = ln_1(x);
    const Tensor seen =
        self_attention(normed, normed, normed, AttentionCall{.need_weights = false}).output;
    const auto [y, hidden] = add_layer_norm(ln_2, x, dropout(seen));
    return y + mlp(hidden);
  }

  LayerNorm ln_1;
  MultiheadAttention self_attention;
  Dropout dropout;
  LayerNorm ln_2;
  Sequential mlp;
};

/** Returns dropout, the blocks and a layer norm, with the parameter "pos_embedding" of one row for
 *  the class token and for each patch. */
Sequential make_encoder(const VisionTransformerOptions& o) {
  const std::int64_t side = o.image_size / o.patch_size;
  Sequential encoder, layers;
  init::normal_(encoder.add_parameter("pos_embedding", empty({1, side * side + 1, o.hidden_dim})),
                0, 0.02);
  for (std::int64_t i = 0; i < o.num_layers; ++i)
    layers.add(str("encoder_layer_", i), EncoderBlock{o});
  encoder.add("dropout", Dropout{o.dropout});
  encoder.add("layers", layers);
  encoder.add("ln", LayerNorm{o.hidden_dim, kNorm});
  return encoder;
}

/** Returns the projection of patches, from a normal distribution with the variance 1 / fan-in. */
Conv2d patches(const VisionTransformerOptions& o) {
  const Conv2d conv{o.in_channels, o.hidden_dim, o.patch_size, {.stride = o.patch_size}};
  const double fan_in = static_cast<double>(o.in_channels * o.patch_size * o.patch_size);
  init::trunc_normal_(conv.weight(), {.std = std::sqrt(1 / fan_in)});
  init::zeros_(conv.bias());
  return conv;
}

}  // namespace

VisionTransformer::VisionTransformer(const VisionTransformerOptions& options)
    : class_token(add_parameter("class_token", zeros({1, 1, checked(options).hidden_dim}))),
      conv_proj(add("conv_proj", patches(options))),
      encoder(add("encoder", make_encoder(options))),
      heads(add("heads", Sequential{})),
      image_size_(options.image_size) {
  const Linear head = heads.add("head", Linear{options.hidden_dim, options.num_classes});
  init::zeros_(head.weight());
  init::zeros_(head.bias());
}

Tensor VisionTransformer::forward(const Tensor& x) const {
  if (x.dim() != 4 || x.size(2) != image_size_ || x.size(3) != image_size_)
    fail<ShapeError>(kVisionTransformer,
                     {.what = "images of another size",
                      .got = str(x),
                      .expected = str("[N, C, ", image_size_, ", ", image_size_, "]")});
  const Tensor features = conv_proj(x).flatten(2).transpose(1, 2);
  const DType dtype = features.dtype();
  const Tensor token = class_token.to(dtype).expand({features.size(0), 1, features.size(2)});
  const Tensor position = encoder.parameter("pos_embedding").to(dtype);
  return heads(encoder(cat({token, features}, 1) + position).select(1, 0));
}

VisionTransformer vit_b_16(const VisionTransformerOptions& options) {
  return VisionTransformer(options);
}

}  // namespace mezzo::nn::models
