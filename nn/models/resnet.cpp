#include "resnet.h"

#include <span>
#include <string>

#include "../../tensor/ops/pool/pool.h"
#include "../../tensor/ops/reduce/reduce.h"
#include "../../tensor/text/text.h"
#include "../init.h"

namespace mezzo::nn::models {

namespace {

/** The kind of blocks and their number in each stage. */
struct Plan {
  int depth;
  bool has_bottlenecks;
  std::array<int, 4> blocks;
};

constexpr std::array<Plan, 5> kPlans{{{18, false, {2, 2, 2, 2}},
                                      {34, false, {3, 4, 6, 3}},
                                      {50, true, {3, 4, 6, 3}},
                                      {101, true, {3, 4, 23, 3}},
                                      {152, true, {3, 8, 36, 3}}}};

const Plan& plan_of(int depth) {
  for (const Plan& plan : kPlans)
    if (plan.depth == depth) return plan;
  fail<ValueError>("ResNet", {.what = "there is no ResNet of this depth",
                              .got = str(depth, ""),
                              .expected = "18, 34, 50, 101 or 152"});
}

/** Returns a convolution without bias, for use before a batch norm. */
Conv2d plain_conv(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride = 1) {
  return {in, out, kernel, {.stride = stride, .padding = kernel / 2, .bias = false}};
}

/** Returns the projection of a block's input if the block changes the shape, else an empty
 *  Sequential. */
Sequential shortcut(std::int64_t in, std::int64_t out, std::int64_t stride) {
  Sequential path;
  if (in == out && stride == 1) return path;
  path.push_back(plain_conv(in, out, 1, stride));
  path.push_back(BatchNorm2d{out});
  return path;
}

/** Two 3x3 convolutions with a residual connection. */
struct BasicBlock : Model<BasicBlock> {
  static constexpr std::int64_t kExpansion = 1;

  BasicBlock(std::int64_t in, std::int64_t width, std::int64_t stride)
      : conv1(add("conv1", plain_conv(in, width, 3, stride))),
        bn1(add("bn1", BatchNorm2d{width})),
        conv2(add("conv2", plain_conv(width, width, 3))),
        bn2(add("bn2", BatchNorm2d{width})),
        downsample(add("downsample", shortcut(in, width, stride))) {}

  Tensor forward(const Tensor& x) const {
    const Tensor y = conv2(batch_norm_relu(bn1, conv1(x)));
    return batch_norm_relu(bn2, y, downsample(x));
  }
  const BatchNorm2d& last() const { return bn2; }

  Conv2d conv1;
  BatchNorm2d bn1;
  Conv2d conv2;
  BatchNorm2d bn2;
  Sequential downsample;
};

/** A 3x3 convolution between two 1x1 convolutions that reduce and restore the number of channels,
 *  with a residual connection. */
struct Bottleneck : Model<Bottleneck> {
  static constexpr std::int64_t kExpansion = 4;

  Bottleneck(std::int64_t in, std::int64_t width, std::int64_t stride)
      : conv1(add("conv1", plain_conv(in, width, 1))),
        bn1(add("bn1", BatchNorm2d{width})),
        conv2(add("conv2", plain_conv(width, width, 3, stride))),
        bn2(add("bn2", BatchNorm2d{width})),
        conv3(add("conv3", plain_conv(width, kExpansion * width, 1))),
        bn3(add("bn3", BatchNorm2d{kExpansion * width})),
        downsample(add("downsample", shortcut(in, kExpansion * width, stride))) {}

  Tensor forward(const Tensor& x) const {
    const Tensor y = conv3(batch_norm_relu(bn2, conv2(batch_norm_relu(bn1, conv1(x)))));
    return batch_norm_relu(bn3, y, downsample(x));
  }
  const BatchNorm2d& last() const { return bn3; }

  Conv2d conv1;
  BatchNorm2d bn1;
  Conv2d conv2;
  BatchNorm2d bn2;
  Conv2d conv3;
  BatchNorm2d bn3;
  Sequential downsample;
};

/** Returns a stage of blocks, the first of which has `stride`. `channels` are those of its input,
 *  then of its output. */
template <class Block>
Sequential make_stage(std::int64_t& channels, std::int64_t width, int blocks, std::int64_t stride,
                      bool starts_as_identity) {
  Sequential stage;
  for (int i = 0; i < blocks; ++i) {
    const Block block(channels, width, i == 0 ? stride : 1);
    if (starts_as_identity) init::zeros_(block.last().weight());
    stage.push_back(block);
    channels = width * Block::kExpansion;
  }
  return stage;
}

ResNet of_depth(ResNetOptions options, int depth) {
  options.depth = depth;
  return ResNet(options);
}

}  // namespace

ResNet::ResNet(const ResNetOptions& options)
    : conv1(add("conv1", options.small_images
                             ? plain_conv(options.in_channels, options.width, 3)
                             : plain_conv(options.in_channels, options.width, 7, 2))),
      bn1(add("bn1", BatchNorm2d{options.width})),
      fc(1, 1),  // replaced below, when the number of channels is known
      small_images_(options.small_images) {
  const Plan& plan = plan_of(options.depth);
  std::int64_t channels = options.width;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const auto make = plan.has_bottlenecks ? make_stage<Bottleneck> : make_stage<BasicBlock>;
    stages[i] = add(str("layer", i + 1), make(channels, options.width << i, plan.blocks[i],
                                              i == 0 ? 1 : 2, options.zero_init_residual));
  }
  fc = add("fc", Linear{channels, options.num_classes});
  for (const NamedTensor& p : named_parameters())
    if (p.tensor.dim() == 4)
      init::kaiming_normal_(p.tensor,
                            {.fan = init::Fan::out, .nonlinearity = init::Nonlinearity::relu});
}

Tensor ResNet::forward(const Tensor& x) const {
  Tensor y = batch_norm_relu(bn1, conv1(x));
  if (!small_images_) y = max_pool2d(y, 3, {.stride = 2, .padding = 1});
  for (const Sequential& stage : stages) y = stage(y);
  return fc(mean(y, {2, 3}));
}

ResNet resnet18(const ResNetOptions& options) { return of_depth(options, 18); }
ResNet resnet34(const ResNetOptions& options) { return of_depth(options, 34); }
ResNet resnet50(const ResNetOptions& options) { return of_depth(options, 50); }

}  // namespace mezzo::nn::models
