// Digit data sets for the samples, and the accuracy of a net.
#pragma once

#include <mezzo.h>

#include <functional>
#include <string>

namespace samples {

/** Returns digits from IDX files in `dir`, or generated digits if `dir` is empty. */
mezzo::data::Split load_digits(const std::string& dir, std::int64_t train, std::int64_t test,
                               std::uint64_t seed);

/** Returns the share of samples of a data set whose largest logit is the label, in evaluation mode.
 * Several processes divide the samples; all get the same result. */
template <class Net, class Images> double accuracy(const Net& net, const Images& test) {
  const mezzo::NoGrad no_grad;
  const bool training = net.training();
  net.eval();
  const mezzo::Device device = net.parameters().front().device();
  const mezzo::comm::World world = mezzo::comm::init();
  mezzo::comm::Mean right(world.all());
  mezzo::data::Batches batches(
      test,
      {.size = 256, .shuffle = false, .shard = world.shard(), .exact = true, .device = device});
  for (const mezzo::Batch& batch : batches)
    if (batch.size() > 0)
      right.add(static_cast<double>(
                    sum(argmax(net(batch.x), {.dim = 1}) == batch.y).template item<std::int64_t>()),
                batch.size());
  net.train(training);
  return right.value();
}

}  // namespace samples
