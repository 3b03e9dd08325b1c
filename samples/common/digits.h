// The digits that samples train on, and how well a net reads them.
// Sees: mezzo.h.
// Read next: ../mnist.cpp.
#pragma once

#include <mezzo.h>

#include <functional>
#include <string>

namespace samples {

/** Digits from IDX files in `dir`, or drawn by the program where `dir` is empty. */
mezzo::data::Split load_digits(const std::string& dir, std::int64_t train, std::int64_t test,
                               std::uint64_t seed);

/** Share of the samples whose largest logit is the label, in evaluation mode. */
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
