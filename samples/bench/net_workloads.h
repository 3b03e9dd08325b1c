// The workloads that nets of the bench share: digit classifiers, residual nets, language models,
// adversarial nets.
#pragma once

#include "../common/text.h"
#include "workload.h"

namespace samples {

/** Returns a workload whose step updates discriminator and generator. The loss is the
 *  discriminator's. */
std::unique_ptr<Workload> gan_workload(const Setting& setting, bool penalty);

/** Returns a workload that trains a net on batches of generated digits with Adam. */
template <class Net>
std::unique_ptr<Workload> digits_workload(const Setting& setting, const Net& net,
                                          std::int64_t batch) {
  const auto digits = mezzo::data::synthetic_digits(kBatches * batch, setting.seed);
  return supervised(setting,
                    {.model = net,
                     .optimizer = std::make_shared<mezzo::optim::Adam>(
                         net.parameters(), mezzo::optim::AdamOptions{.lr = 1e-3}),
                     .loss = [net](const mezzo::Batch& b) { return cross_entropy(net(b.x), b.y); },
                     .batches = batches_of(digits, digits.size() / kBatches)},
                    {{"optimizer", "adam"}, {"lr", "1e-3"}});
}

/** Sizes of a language model's workload. */
struct TextWorkload {
  std::int64_t batch = 1;   // stretches in a step
  std::int64_t length = 1;  // characters in a stretch
  std::int64_t heads = 1;   // attention heads of the net
};

/** Returns a workload that trains a net, which maps characters to the logits of the next ones, on
 *  random stretches of the built-in text with AdamW. */
template <class Net>
std::unique_ptr<Workload> text_workload(const Setting& setting, const Net& net,
                                        const TextWorkload& sizes) {
  const Text text = Text::built_in();
  std::vector<mezzo::Batch> batches;
  for (std::int64_t i = 0; i < kBatches; ++i)
    batches.push_back(random_stretches(text.train(), sizes.batch, sizes.length));
  return supervised(
      setting,
      {.model = net,
       .optimizer = std::make_shared<mezzo::optim::AdamW>(
           net.parameters(),
           mezzo::optim::AdamWOptions{.lr = 1e-3, .betas = {0.9, 0.99}, .weight_decay = 0.1}),
       .loss =
           [net](const mezzo::Batch& b) {
             return cross_entropy(net(b.x).flatten(0, 1), b.y.flatten());
           },
       .batches = batches,
       .max_norm = 1},
      {{"optimizer", "adamw"},
       {"lr", "1e-3"},
       {"betas", "0.9,0.99"},
       {"weight_decay", "0.1"},
       {"heads", mezzo::str(sizes.heads)}});
}

/** Returns a workload that trains a ResNet on coloured digits of `pixels` x `pixels` with SGD and
 *  momentum. Images and weights are channels-last at size full. */
std::unique_ptr<Workload> resnet_workload(const Setting& setting,
                                          const mezzo::nn::models::ResNetOptions& options,
                                          std::int64_t pixels, std::int64_t batch);

}  // namespace samples
