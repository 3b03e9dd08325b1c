// Vision transformers with torchvision's parameter names, so that its weights load.
#pragma once

#include <cstdint>

#include "../conv.h"
#include "../sequential.h"

namespace mezzo::nn::models {

/** Options of a VisionTransformer. The defaults are those of vit_b_16(). */
struct VisionTransformerOptions {
  std::int64_t image_size = 224;    // height and width of the images
  std::int64_t patch_size = 16;     // height and width of a patch; must divide image_size
  std::int64_t num_layers = 12;     // number of blocks
  std::int64_t num_heads = 12;      // attention heads; must divide hidden_dim
  std::int64_t hidden_dim = 768;    // features of a patch
  std::int64_t mlp_dim = 3072;      // hidden features of the feed-forward nets
  double dropout = 0;               // dropout probability of features while training
  double attention_dropout = 0;     // dropout probability of attention weights while training
  std::int64_t num_classes = 1000;  // number of logits
  std::int64_t in_channels = 3;     // channels of the images
};

/** Transformer over the patches of an image and a class token, whose last state is classified.
 *  Shape: images [N, in_channels, image_size, image_size] of a floating dtype to logits
 *  [N, num_classes]. Parameters and their names are torchvision's: class_token, conv_proj, encoder,
 *  heads. Precision: that of its layers; the position embedding is converted to the dtype of the
 *  features. Initialisation: as torchvision; the head starts with zeros.
 *  Errors: ValueError for sizes below 1 or that do not divide; calls throw ShapeError for another
 *  image size.
 *  Source: Dosovitskiy et al., An image is worth 16x16 words, 2020. */
struct MZ_API VisionTransformer : Model<VisionTransformer> {
  /** Constructs with random weights. */
  explicit VisionTransformer(const VisionTransformerOptions& options = {});
  /** Returns the logits. */
  Tensor forward(const Tensor& x) const;

  /** The step before the patches, whose last state is classified; [1, 1, hidden_dim]. */
  Tensor class_token;
  /** Divides the image into patches, and computes the features of each. */
  Conv2d conv_proj;
  /** Dropout, the blocks and a layer norm. Its parameter "pos_embedding" is added before. */
  Sequential encoder;
  /** The classifier; heads.replace("head", nn::Linear{768, 10}) makes a new one. */
  Sequential heads;

 private:
  std::int64_t image_size_;
};

/** Returns the base size of the paper, with patches of 16 x 16 pixels. */
MZ_API VisionTransformer vit_b_16(const VisionTransformerOptions& options = {});

}  // namespace mezzo::nn::models
