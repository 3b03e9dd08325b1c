// Several threads that use the weights of one model.
#include <mezzo.h>

#include "../support/catch.h"
#include "on_threads.h"

using namespace mezzo;
using threads::on_threads;

namespace {

struct Net : nn::Model<Net> {
  Tensor forward(const Tensor& x) const { return second(relu(first(x))); }
  nn::Linear first = add("first", nn::Linear{4, 8});
  nn::Linear second = add("second", nn::Linear{8, 2});
};

/** Rounds the weights to integers, so that sums are exact in any order. */
void make_exact(const Net& net) {
  const NoGrad no_grad;
  for (const Tensor& p : net.parameters()) p.copy_(round(p * 8.0));
}

Tensor images(int t) { return full({3, 4}, t + 1); }

std::vector<std::vector<double>> gradients(const Net& net) {
  std::vector<std::vector<double>> out;
  for (const Tensor& p : net.parameters()) out.push_back(p.grad().to_vector<double>());
  return out;
}

constexpr int kThreads = 3, kPasses = 50;

}  // namespace

TEST_CASE("gradients of threads that train one model add up", "[threads]") {
  const Net net;
  make_exact(net);
  const auto pass = [&](int t) { sum(net(images(t))).backward(); };
  for (int t = 0; t < kThreads; ++t)
    for (int i = 0; i < kPasses; ++i) pass(t);
  const auto expected = gradients(net);
  net.zero_grad();
  on_threads(kThreads, [&](int t) {
    for (int i = 0; i < kPasses; ++i) pass(t);
  });
  CHECK(gradients(net) == expected);
}

TEST_CASE("threads share the weight casts of a session", "[threads]") {
  const Net net;
  make_exact(net);
  auto session = amp::initialize(net, {.opt_level = "O1", .verbosity = 0});
  const auto pass = [&](int t) { sum(net(images(t)).to(f32)).backward(); };
  for (int t = 0; t < kThreads; ++t)
    for (int i = 0; i < kPasses; ++i) pass(t);
  const auto expected = gradients(net);
  net.zero_grad();
  session.cast_cache().clear();
  on_threads(kThreads, [&](int t) {
    const auto on = session.activate();
    for (int i = 0; i < kPasses; ++i) pass(t);
  });
  CHECK(gradients(net) == expected);
}

TEST_CASE("threads may evaluate one model concurrently", "[threads]") {
  const Net net;
  const NoGrad no_grad;
  std::vector<std::vector<double>> alone(kThreads), together(kThreads);
  const auto ask = [&](int t) { return net(images(t)).to_vector<double>(); };
  for (int t = 0; t < kThreads; ++t) alone[static_cast<std::size_t>(t)] = ask(t);
  on_threads(kThreads, [&](int t) {
    const NoGrad here;
    for (int i = 0; i < kPasses; ++i) together[static_cast<std::size_t>(t)] = ask(t);
  });
  CHECK(together == alone);
}

TEST_CASE("threads may train separate models concurrently", "[threads]") {
  std::vector<std::vector<double>> weights(kThreads);
  const auto train = [&](int t) {
    manual_seed(5);
    const Net net;
    optim::Adam optimizer(net.parameters(), {.lr = 0.1});
    auto session = amp::initialize(net, optimizer, {.opt_level = "O2", .verbosity = 0});
    const data::Dataset digits{randn({32, 4}), zeros({32}, {.dtype = i64}), "made up"};
    data::Batches batches = digits.batches({.size = 8});  // prefetched on another thread
    for (int epoch = 0; epoch < 3; ++epoch)
      for (const Batch& batch : batches) {
        const Tensor loss = cross_entropy(net(batch.x).to(f32), batch.y);
        optimizer.zero_grad();
        amp::scale_loss(loss, optimizer, [](const Tensor& scaled) { scaled.backward(); });
        optimizer.step();
      }
    weights[static_cast<std::size_t>(t)] = net.parameters()[0].to(f32).to_vector<double>();
  };
  on_threads(kThreads, train);
  for (const auto& others : weights) CHECK(others == weights[0]);
}
