#include "net_workloads.h"

namespace samples {

namespace {

/** Returns generated digits as images of three channels, with a random intensity for each channel
 *  of each image. */
data::Dataset coloured_digits(std::int64_t count, std::int64_t pixels, std::uint64_t seed) {
  const data::Dataset digits = data::synthetic_digits(count, seed);
  const Tensor resized = interpolate(
      digits.x(),
      {.size = {pixels, pixels}, .mode = InterpolateMode::bilinear, .align_corners = false});
  return {resized * (0.5 + rand({count, 3, 1, 1})), digits.y()};
}

}  // namespace

std::unique_ptr<Workload> resnet_workload(const Setting& s,
                                          const nn::models::ResNetOptions& options,
                                          std::int64_t pixels, std::int64_t batch) {
  const nn::models::ResNet net(options);
  // With a high learning rate, rounding differences grow within a few steps in a deep and narrow
  // net. The tiny size is used for comparisons, so its learning rate is low.
  const double lr = s.pick(0.002, 0.01, 0.1);
  // The layout in which a GPU's convolutions are fastest.
  const MemoryFormat format =
      s.pick(MemoryFormat::contiguous, MemoryFormat::contiguous, MemoryFormat::channels_last);
  net.to(format);
  std::vector<Batch> batches = batches_of(coloured_digits(kBatches * batch, pixels, s.seed), batch);
  for (Batch& one : batches) one.x = one.x.to(format);
  const auto optimizer = std::make_shared<optim::SGD>(
      net.parameters(), optim::SgdOptions{.lr = lr, .momentum = 0.9, .weight_decay = 5e-4});
  return supervised(s,
                    {.model = net,
                     .optimizer = optimizer,
                     .loss = [net](const Batch& b) { return cross_entropy(net(b.x), b.y); },
                     .batches = std::move(batches)},
                    {{"optimizer", "sgd"},
                     {"lr", str(lr)},
                     {"momentum", "0.9"},
                     {"weight_decay", "5e-4"},
                     {"format", std::string(name(format))},
                     {"depth", str(options.depth)},
                     {"stem", options.small_images ? "small" : "large"}});
}

}  // namespace samples
