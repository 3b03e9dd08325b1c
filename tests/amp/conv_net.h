// A convolution, a batch norm and a linear layer, trained for a few steps by any optimizer under
// any options.
#pragma once

#include <vector>

#include "../support/optimizers.h"
#include "fingerprint.h"
#include "nets.h"

namespace conv_net {

using namespace mezzo;

/** Input [N,2,6,6], result [N,3]. */
struct ConvNet : nn::Model<ConvNet> {
  ConvNet() {
    to(nets::test_device());
    const NoGrad no_grad;
    double phase = 0;
    for (const Tensor& p : conv.parameters()) p.copy_(nets::wave(p.shape(), phase++) * 0.4);
    for (const Tensor& p : fc.parameters()) p.copy_(nets::wave(p.shape(), phase++) * 0.4);
  }
  nn::Conv2d conv = add("conv", nn::Conv2d{2, 4, 3});
  nn::BatchNorm2d bn = add("bn", nn::BatchNorm2d{4});
  nn::Linear fc = add("fc", nn::Linear{16, 3});
  Tensor forward(const Tensor& x) const { return fc(max_pool2d(relu(bn(conv(x))), 2).flatten(1)); }
};

/** The outcome of a run, comparable bit for bit. */
struct RunResult {
  std::vector<double> losses;
  std::vector<optim::StepResult> verdicts;
  std::uint64_t model = 0, optimizer = 0;  // fingerprints
  friend bool operator==(const RunResult&, const RunResult&) = default;
};

/** How parameters are distributed to optimizers. */
enum class Grouping { together, one_by_one };

inline const int kTrainSteps = nets::test_device() == cpu ? 6 : 3;  // an emulated device is slow

inline RunResult train(const amp::Options& options, const optimizers::Factory& make,
                       int steps = kTrainSteps, Grouping grouping = Grouping::together) {
  const ConvNet net;
  std::vector<optimizers::Made> optimizers;
  if (grouping == Grouping::together)
    optimizers.push_back(make(net.parameters()));
  else
    for (const Tensor& p : net.parameters()) optimizers.push_back(make({p}));
  const auto session = amp::initialize(net, optimizers, options);
  const Tensor x = nets::wave({4, 2, 6, 6}, 0.3),
               classes = tensor({0, 1, 2, 1}, {4}, {.dtype = i64, .device = nets::test_device()});
  RunResult run;
  for (int i = 0; i < steps; ++i) {
    const Tensor loss = cross_entropy(net(x), classes);
    run.losses.push_back(loss.item<double>());
    for (const auto& optimizer : optimizers) optimizer->zero_grad();
    amp::scale_loss(loss, optimizers, [](const Tensor& scaled) { scaled.backward(); });
    for (const auto& optimizer : optimizers) run.verdicts.push_back(optimizer->step());
  }
  run.model = fingerprint::of(net);
  if (grouping == Grouping::together) run.optimizer = fingerprint::of(*optimizers[0]);
  return run;
}

}  // namespace conv_net
