// ResNet-18 and ResNet-50, with the stem for small images or the one for large ones. Names as in torchvision.
// Sees: mezzo.h.
// Read next: ../resnet.cpp (how it is trained).
#pragma once

#include <mezzo.h>

#include <array>
#include <string>

namespace samples {

using namespace mezzo;

struct ResNetOptions {
  int depth = 18;  // or 50
  bool small_images =
      true;  // CIFAR's stem: a 3x3 convolution; else ImageNet's: 7x7 with stride 2, then pooling
  std::int64_t width = 64;  // channels of the first stage; every further one doubles them
  std::int64_t in_channels = 3;
  std::int64_t classes = 10;
};

/** A convolution without bias, as it stands before a batch norm. */
inline nn::Conv2d plain_conv(std::int64_t in, std::int64_t out, std::int64_t kernel,
                             std::int64_t stride = 1) {
  return {in, out, kernel, {.stride = stride, .padding = kernel / 2, .bias = false}};
}

/** What a block's input passes through where the block changes the shape; nothing elsewhere. */
inline nn::Sequential shortcut(std::int64_t in, std::int64_t out, std::int64_t stride) {
  nn::Sequential path;
  if (in == out && stride == 1) return path;
  path.push_back(plain_conv(in, out, 1, stride));
  path.push_back(nn::BatchNorm2d{out});
  return path;
}

/** Two 3x3 convolutions around which the input is carried over. */
struct BasicBlock : nn::Model<BasicBlock> {
  static constexpr std::int64_t kExpansion = 1;

  BasicBlock(std::int64_t in, std::int64_t width, std::int64_t stride)
      : conv1(add("conv1", plain_conv(in, width, 3, stride))),
        bn1(add("bn1", nn::BatchNorm2d{width})),
        conv2(add("conv2", plain_conv(width, width, 3))),
        bn2(add("bn2", nn::BatchNorm2d{width})),
        downsample(add("downsample", shortcut(in, width, stride))) {
    nn::init::zeros_(
        bn2.weight());  // a block begins as what its input is carried along, which makes a deep net tame
  }

  Tensor forward(const Tensor& x) const {
    const Tensor y = conv2(nn::batch_norm_relu(bn1, conv1(x)));
    return nn::batch_norm_relu(bn2, y, downsample(x));
  }

  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::Conv2d conv2;
  nn::BatchNorm2d bn2;
  nn::Sequential downsample;
};

/** A 3x3 convolution between two 1x1 ones that lower and raise the number of channels. */
struct Bottleneck : nn::Model<Bottleneck> {
  static constexpr std::int64_t kExpansion = 4;

  Bottleneck(std::int64_t in, std::int64_t width, std::int64_t stride)
      : conv1(add("conv1", plain_conv(in, width, 1))),
        bn1(add("bn1", nn::BatchNorm2d{width})),
        conv2(add("conv2", plain_conv(width, width, 3, stride))),
        bn2(add("bn2", nn::BatchNorm2d{width})),
        conv3(add("conv3", plain_conv(width, kExpansion * width, 1))),
        bn3(add("bn3", nn::BatchNorm2d{kExpansion * width})),
        downsample(add("downsample", shortcut(in, kExpansion * width, stride))) {
    nn::init::zeros_(bn3.weight());
  }

  Tensor forward(const Tensor& x) const {
    const Tensor y = conv3(nn::batch_norm_relu(bn2, conv2(nn::batch_norm_relu(bn1, conv1(x)))));
    return nn::batch_norm_relu(bn3, y, downsample(x));
  }

  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::Conv2d conv2;
  nn::BatchNorm2d bn2;
  nn::Conv2d conv3;
  nn::BatchNorm2d bn3;
  nn::Sequential downsample;
};

/** Four stages of residual blocks, each but the first at half the resolution of the one before. Input [N,channels,H,W], result [N,classes] (logits).
 *  Source: He, Zhang, Ren, Sun, Deep residual learning for image recognition (2015). */
struct ResNet : nn::Model<ResNet> {
  explicit ResNet(const ResNetOptions& options = {})
      : small_images(options.small_images),
        conv1(add("conv1", small_images ? plain_conv(options.in_channels, options.width, 3)
                                        : plain_conv(options.in_channels, options.width, 7, 2))),
        bn1(add("bn1", nn::BatchNorm2d{options.width})),
        channels_(options.width) {
    const bool deep = options.depth == 50;
    constexpr std::int64_t kBlocks[2][4] = {{2, 2, 2, 2}, {3, 4, 6, 3}};
    for (std::int64_t stage = 0; stage < 4; ++stage) {
      const std::int64_t width = options.width << stage, stride = stage == 0 ? 1 : 2;
      nn::Sequential& blocks = stages[static_cast<std::size_t>(stage)];
      for (std::int64_t i = 0; i < kBlocks[deep][stage]; ++i) {
        if (deep)
          append<Bottleneck>(blocks, width, i == 0 ? stride : 1);
        else
          append<BasicBlock>(blocks, width, i == 0 ? stride : 1);
      }
      add("layer" + std::to_string(stage + 1), blocks);
    }
    fc = add("fc", nn::Linear{channels_, options.classes});
    // He's start: each convolution keeps the variance of the gradients that come back through it.
    for (const nn::NamedTensor& p : named_parameters())
      if (p.tensor.dim() == 4)
        nn::init::kaiming_normal_(p.tensor,
                                  {.fan = nn::init::Fan::out, .nonlinearity = nn::init::Nonlinearity::relu});
  }

  Tensor forward(const Tensor& x) const {
    Tensor y = nn::batch_norm_relu(bn1, conv1(x));
    if (!small_images) y = max_pool2d(y, 3, {.stride = 2, .padding = 1});
    for (const nn::Sequential& stage : stages) y = stage(y);
    return fc(mean(y, {2, 3}));
  }

  bool small_images;
  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  std::array<nn::Sequential, 4> stages;
  nn::Linear fc{1, 1};  // made anew when the number of channels is known

 private:
  template <class Block> void append(nn::Sequential& stage, std::int64_t width, std::int64_t stride) {
    stage.push_back(Block{channels_, width, stride});
    channels_ = width * Block::kExpansion;
  }

  std::int64_t channels_;  // that the next block gets
};

}  // namespace samples
