#include "micro.h"

#include <mezzo.h>

#include "../nets/mlp.h"
#include "baselines.h"
#include "stopwatch.h"

namespace samples {

using namespace mezzo;

namespace {

/** Returns the time of FusedAdam's step at O2 (masters, their gradients, 16-bit copies) relative to
 *  a bare loop over equally many weights. */
double fused_adam_over_bare() {
  Mlp model;
  optim::FusedAdam optimizer(model.parameters());
  const auto session = amp::initialize(model, optimizer, {.opt_level = "O2", .verbosity = 0});
  std::vector<Tensor> p, g, m, v, masters = amp::master_params(optimizer);
  for (const Tensor& master : masters) {
    p.push_back(master.detach().clone());
    g.push_back(randn(master.shape()));
    for (auto* state : {&m, &v}) state->push_back(zeros(master.shape()));
  }
  std::int64_t step = 0;
  const auto ours = [&] {
    for (std::size_t i = 0; i < masters.size(); ++i)
      masters[i].set_grad(g[i]);  // a step clears them
    optimizer.step();
  };
  const auto bare = [&] {
    ++step;
    for (std::size_t i = 0; i < p.size(); ++i)
      bare_adam(p[i].numel(), p[i].data<float>(), g[i].data<float>(), m[i].data<float>(),
                v[i].data<float>(), step);
  };
  const int threads = num_threads();
  set_num_threads(1);
  const auto [fused, plain] = interleaved_seconds(41, ours, bare);
  set_num_threads(threads);
  return fused / plain;
}

/** Function that runs a training step of the MLP at a level, with batch 128. */
class Trainer {
 public:
  Trainer(const char* level, std::optional<amp::LossScale> scale)
      : session_(amp::initialize(model_, optimizer_,
                                 {.opt_level = level, .loss_scale = scale, .verbosity = 0})) {}

  void operator()() {
    optimizer_.zero_grad();
    const Tensor loss = cross_entropy(model_(x_), y_);
    amp::scale_loss(loss, optimizer_, [](const Tensor& scaled) { scaled.backward(); });
    optimizer_.step();
  }

 private:
  Mlp model_;
  optim::FusedAdam optimizer_{model_.parameters()};
  amp::Session session_;
  Tensor x_ = rand({128, 1, 28, 28}), y_ = randint(0, 10, {128});
};

/** Returns the time of a step at O1 with dynamic scaling relative to a step without: the cost of
 *  checking and unscaling gradients. */
double scaling_over_none() {
  Trainer scaled("O1", amp::LossScale("dynamic")), unscaled("O1", amp::LossScale(1.0));
  const auto [with, without] = interleaved_seconds(41, scaled, unscaled);
  return with / without;
}

}  // namespace

void measure_mixed_precision(MicroResults& results) {
  results.push_back({"FusedAdam at O2 against a bare loop, MLP's weights, 1 thread",
                     fused_adam_over_bare(), "x", "<= 1.3"});
  results.push_back(
      {"MLP step at O1, dynamic scaling against none", scaling_over_none(), "x", "<= 1.05"});
}

}  // namespace samples
