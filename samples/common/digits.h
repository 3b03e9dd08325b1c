// Digit data sets for the samples, and the accuracy of a net.
#pragma once

#include <mezzo.h>

#include <functional>
#include <string>

namespace samples {

/** Returns digits from IDX files in `dir`, or generated digits if `dir` is empty. */
mezzo::data::Split load_digits(const std::string& dir, std::int64_t train, std::int64_t test,
                               std::uint64_t seed);

/** Returns the share of samples whose largest logit is the label, in evaluation mode. */
template <class Net> double accuracy(const Net& net, const mezzo::data::Dataset& test) {
  const mezzo::NoGrad no_grad;
  const bool training = net.training();
  net.eval();
  const mezzo::Device device = net.parameters().front().device();
  std::int64_t right = 0;
  mezzo::data::Batches batches = test.batches({.size = 256, .shuffle = false, .device = device});
  for (const mezzo::Batch& batch : batches)
    right += sum(argmax(net(batch.x), {.dim = 1}) == batch.y).template item<std::int64_t>();
  net.train(training);
  return static_cast<double>(right) / static_cast<double>(test.size());
}

}  // namespace samples
