// Muon: singular values near 1, refused parameters, steps under mixed precision and resumption.
// ../golden/training.cpp compares it with PyTorch's.
#include <mezzo.h>

#include <cmath>

#include "../support/catch.h"
#include "../support/levels.h"
#include "../support/throws.h"

using namespace mezzo;

namespace {

/** Returns what a step subtracts from a parameter. */
Tensor stepped(const Shape& shape, const optim::MuonOptions& options) {
  manual_seed(2);
  const Tensor p = zeros(shape).requires_grad_();
  optim::Muon optimizer({p}, options);
  p.set_grad(randn(shape));
  optimizer.step();
  return -p.detach();
}

/** A net of matrices only. */
nn::Sequential matrices() {
  manual_seed(4);
  return nn::Sequential(nn::Linear(16, 24, {.bias = false}), nn::ReLU(),
                        nn::Linear(24, 3, {.bias = false}));
}

/** Trains on random data, a batch per step. */
double train_net(const nn::Sequential& net, optim::Muon& optimizer, int steps, std::uint64_t seed) {
  manual_seed(seed);
  double last = 0;
  for (int i = 0; i < steps; ++i) {
    const Tensor x = randn({32, 16});
    const Tensor y = x.narrow(1, 0, 3).argmax(1);
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(net(x), y);
    amp::scale_loss(loss, optimizer, [](const Tensor& scaled) { scaled.backward(); });
    optimizer.step();
    last = loss.item();
  }
  return last;
}

}  // namespace

TEST_CASE("a step of Muon has singular values near 1", "[muon]") {
  for (const Shape& shape : {Shape{8, 8}, Shape{4, 32}, Shape{32, 4}, Shape{1, 5}, Shape{5, 1}}) {
    const Tensor x = stepped(shape, {.lr = 1, .weight_decay = 0});
    const double rows = static_cast<double>(shape[0]), columns = static_cast<double>(shape[1]);
    const Tensor u = x / std::sqrt(std::max(1.0, rows / columns));
    // The trace of u u^T is the sum of the squares: each lies between about 0.7^2 and 1.2^2.
    const double mean_square = u.square().sum().item() / std::min(rows, columns);
    INFO(str(shape) << " " << mean_square);
    CHECK(mean_square > 0.4);
    CHECK(mean_square < 1.5);
  }
  CHECK(stepped({0, 4}, {}).numel() == 0);
  CHECK(stepped({3, 3}, {.lr = 1, .ns_steps = 0}).norm().item() == Approx(1).margin(0.01));
}

TEST_CASE("Muon refuses parameters that are no matrices, and options out of range", "[muon]") {
  const Tensor vector = zeros({3}).requires_grad_(), matrix = zeros({3, 3}).requires_grad_();
  CHECK_THROWS_WITH_AS_TEXT(optim::Muon({matrix, vector}), ShapeError, "parameter 1 is no matrix");
  CHECK_THROWS_WITH_AS_TEXT(optim::Muon({matrix}, {.lr = -1}), ValueError, "lr");
  CHECK_THROWS_WITH_AS_TEXT(optim::Muon({matrix}, {.ns_steps = 100}), ValueError, "ns_steps");
  CHECK_THROWS_WITH_AS_TEXT(optim::Muon({matrix}, {.ns_coefficients = {1, NAN, 0}}), ValueError,
                            "ns_coefficients");
  optim::Muon optimizer({matrix}, 1e-2);
  CHECK(optimizer.lr() == 1e-2);
  CHECK_THROWS_AS(optimizer.step(), StateError);
}

TEST_CASE("Muon trains at every level", "[muon]") {
  for (const char* level : levels::names()) {
    INFO(level);
    const nn::Sequential net = matrices();
    optim::Muon optimizer(net.parameters(), {.lr = 0.02});
    const auto session = amp::initialize(net, optimizer, {.opt_level = level, .verbosity = 0});
    const double first = train_net(net, optimizer, 1, 1);
    CHECK(train_net(net, optimizer, 60, 2) < 0.8 * first);
  }
}

TEST_CASE("an overflow leaves Muon's weights and means as they are", "[muon]") {
  const nn::Sequential net = matrices();
  optim::Muon optimizer(net.parameters(), {.lr = 0.02});
  const auto session = amp::initialize(net, optimizer, {.opt_level = "O2", .verbosity = 0});
  train_net(net, optimizer, 3, 1);
  const auto state = [&] {
    std::vector<double> all;
    for (const auto& slot : optimizer.slots(0))
      for (const Tensor& x : {slot.target(), slot.param, slot.state[0]})
        for (const double value : x.to_vector<double>()) all.push_back(value);
    return all;
  };
  const std::vector<double> before = state();
  optimizer.zero_grad();
  const Tensor loss = net(full({4, 16}, 1e30)).sum();
  amp::scale_loss(loss, optimizer, [](const Tensor& scaled) { scaled.backward(); });
  CHECK(optimizer.step() == optim::StepResult::skipped);
  CHECK(state() == before);
}

TEST_CASE("Muon resumes bit for bit", "[muon]") {
  const nn::Sequential net = matrices(), other = matrices();
  optim::Muon optimizer(net.parameters(), {.lr = 0.02});
  const auto session = amp::initialize(net, optimizer, {.opt_level = "O0", .verbosity = 0});
  train_net(net, optimizer, 5, 1);
  other.load_state_dict(net.state_dict());
  optim::Muon resumed(other.parameters(), {.lr = 0.5, .momentum = 0.1});
  resumed.load_state_dict(optimizer.state_dict());
  CHECK(resumed.options().momentum == 0.95);
  const auto second = amp::initialize(other, resumed, {.opt_level = "O0", .verbosity = 0});
  train_net(net, optimizer, 5, 2);
  train_net(other, resumed, 5, 2);
  CHECK(equal(net.parameters()[0], other.parameters()[0]));
  CHECK(equal(net.parameters()[1], other.parameters()[1]));
}
