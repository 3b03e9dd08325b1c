// ResNet-18 and ResNet-50, with a stem for small or for large images. Parameter names are those of
// torchvision.
#pragma once

#include <mezzo.h>

#include <array>
#include <string>

namespace samples {

using namespace mezzo;

struct ResNetOptions {
  int depth = 18;  // or 50
  // On: CIFAR's stem, a 3x3 convolution. Off: ImageNet's stem, 7x7 with stride 2, then pooling.
  bool small_images = true;
  std::int64_t width = 64;       // channels of the first stage; each further stage doubles them
  std::int64_t in_channels = 3;  // channels of the images
  std::int64_t classes = 10;     // number of logits
};

/** Returns a convolution without bias, for use before a batch norm. */
inline nn::Conv2d plain_conv(std::int64_t in, std::int64_t out, std::int64_t kernel,
                             std::int64_t stride = 1) {
  return {in, out, kernel, {.stride = stride, .padding = kernel / 2, .bias = false}};
}

/** Returns the projection of a block's input if the block changes the shape, else an empty
 *  Sequential. */
inline nn::Sequential shortcut(std::int64_t in, std::int64_t out, std::int64_t stride) {
  nn::Sequential path;
  if (in == out && stride == 1) return path;
  path.push_back(plain_conv(in, out, 1, stride));
  path.push_back(nn::BatchNorm2d{out});
  return path;
}

/** Two 3x3 convolutions with a residual connection. */
struct BasicBlock : nn::Model<BasicBlock> {
  static constexpr std::int64_t kExpansion = 1;

  BasicBlock(std::int64_t in, std::int64_t width, std::int64_t stride)
      : conv1(add("conv1", plain_conv(in, width, 3, stride))),
        bn1(add("bn1", nn::BatchNorm2d{width})),
        conv2(add("conv2", plain_conv(width, width, 3))),
        bn2(add("bn2", nn::BatchNorm2d{width})),
        downsample(add("downsample", shortcut(in, width, stride))) {
    // A block starts as the identity, which stabilises the training of deep nets.
    nn::init::zeros_(bn2.weight());
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

/** A 3x3 convolution between two 1x1 convolutions that reduce and restore the number of channels,
 *  with a residual connection. */
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

/** Four stages of residual blocks. Each stage after the first halves the resolution. Input
 *  [N,channels,H,W], result [N,classes] (logits).
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
    // He initialisation with fan-out preserves the variance of gradients in each convolution.
    for (const nn::NamedTensor& p : named_parameters())
      if (p.tensor.dim() == 4)
        nn::init::kaiming_normal_(
            p.tensor, {.fan = nn::init::Fan::out, .nonlinearity = nn::init::Nonlinearity::relu});
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
  nn::Linear fc{1, 1};  // replaced in the constructor when the number of channels is known

 private:
  template <class Block>
  void append(nn::Sequential& stage, std::int64_t width, std::int64_t stride) {
    stage.push_back(Block{channels_, width, stride});
    channels_ = width * Block::kExpansion;
  }

  std::int64_t channels_;  // input channels of the next block
};

}  // namespace samples
