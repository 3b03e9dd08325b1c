// ResNets with torchvision's parameter names, so that its weights load.
#pragma once

#include <array>
#include <cstdint>

#include "../conv.h"
#include "../linear.h"
#include "../norm.h"
#include "../sequential.h"

namespace mezzo::nn::models {

/** Options of a ResNet. */
struct ResNetOptions {
  int depth = 18;                   // 18, 34, 50, 101 or 152
  std::int64_t num_classes = 1000;  // number of logits
  std::int64_t in_channels = 3;     // channels of the images
  std::int64_t width = 64;          // channels of the first stage; each further stage doubles them
  /** The stem for images of about 32 pixels, as in CIFAR: a 3x3 convolution with stride 1. Off:
   *  ImageNet's, 7x7 with stride 2, then max pooling. */
  bool small_images = false;
  /** Starts each block as the identity: the weight of its last batch norm is 0. This stabilises the
   *  training of deep nets (Goyal et al., arXiv:1706.02677). */
  bool zero_init_residual = false;
};

/** Four stages of residual blocks. Each stage after the first halves the resolution.
 *  Shape: images [N, in_channels, H, W] of a floating dtype to logits [N, num_classes]. Parameters
 *  and their names are torchvision's for the default options: conv1, bn1, layer1 to layer4, fc.
 *  Precision: that of its layers. Initialisation: convolutions by He's normal distribution with
 *  fan-out, as torchvision. Errors: ValueError for another depth.
 *  Source: He, Zhang, Ren, Sun, Deep residual learning for image recognition, 2015; with the stride
 *  in the 3x3 convolution of a bottleneck, as torchvision ("ResNet v1.5"). */
struct MZ_API ResNet : Model<ResNet> {
  /** Constructs with random weights. */
  explicit ResNet(const ResNetOptions& options = {});
  /** Returns the logits. */
  Tensor forward(const Tensor& x) const;

  /** First convolution. */
  Conv2d conv1;
  /** Its batch norm. */
  BatchNorm2d bn1;
  /** layer1 to layer4. */
  std::array<Sequential, 4> stages;
  /** Last layer; net.replace(net.fc, nn::Linear{net.fc.weight().size(1), 10}) makes a new head. */
  Linear fc;

 private:
  bool small_images_;
};

/** Returns a ResNet-18. */
MZ_API ResNet resnet18(const ResNetOptions& options = {});
/** Returns a ResNet-34. */
MZ_API ResNet resnet34(const ResNetOptions& options = {});
/** Returns a ResNet-50. */
MZ_API ResNet resnet50(const ResNetOptions& options = {});

}  // namespace mezzo::nn::models
