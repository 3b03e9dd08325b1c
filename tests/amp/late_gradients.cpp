// Gradients that stay scaled in memory until the update, or until they are read: values are the
// same as without, and the f32 gradients of masters take no memory meanwhile.
#include <cmath>
#include <functional>
#include <memory>
#include <optional>

#include "../../tensor/memory/storage.h"
#include "../support/catch.h"
#include "../support/levels.h"
#include "../support/optimizers.h"
#include "nets.h"

using namespace nets;

namespace {

using Values = std::vector<double>;

/** Returns all gradients that the optimizer's updates read, concatenated. */
Values all_gradients(const optim::Optimizer& optimizer) {
  Values out;
  for (const Tensor& p : optimizer.params())
    if (p.grad().defined())
      for (const double x : values(p.grad())) out.push_back(x);
  return out;
}

bool same(const Values& a, const Values& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i] && (a[i] == a[i] || b[i] == b[i])) return false;
  return true;
}

/** When a training looks at its gradients; and whether it clips them in the step. */
struct Reads {
  bool before = false, after = false, scaled = false;
  std::optional<double> max_norm = {};
};

struct TrainedValues {
  Values weights, before, after;  // before and after each step
  double scale = 0;
};

/** Trains six steps at a level; the third one overflows. */
TrainedValues trained(const char* level, const optimizers::Factory& make, const Reads& reads) {
  const Net net;
  const optimizers::Made optimizer = make(net.parameters());
  auto session = amp::initialize(net, *optimizer, quiet(level));
  const bool is_dynamic = session.loss_scaler().dynamic();
  TrainedValues result;
  const auto append = [](Values& to, const Values& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  for (int i = 0; i < 6; ++i) {
    optimizer->zero_grad();
    const Tensor loss = loss_of(net) * (is_dynamic && i == 2 ? HUGE_VAL : 1);
    amp::scale_loss(loss, *optimizer, run_backward);
    if (reads.scaled)
      for (const Tensor& p : net.parameters()) (void)values(p.grad());
    if (reads.before) append(result.before, all_gradients(*optimizer));
    optimizer->step({.max_norm = reads.max_norm});
    if (reads.after) append(result.after, all_gradients(*optimizer));
  }
  result.weights = weights(net);
  for (const Tensor& p : optimizer->params())
    for (const double x : values(p)) result.weights.push_back(x);
  result.scale = session.loss_scaler().loss_scale();
  return result;
}

/** A net with convolutions, linear layers and every norm. */
struct Norms : nn::Model<Norms> {
  nn::Conv2d conv = add("conv", nn::Conv2d{3, 8, 3, {.padding = 1}});
  nn::BatchNorm2d batch_norm = add("batch_norm", nn::BatchNorm2d{8});
  nn::GroupNorm group_norm = add("group_norm", nn::GroupNorm{2, 8});
  nn::Linear linear = add("linear", nn::Linear{8 * 4, 16});
  nn::LayerNorm layer_norm = add("layer_norm", nn::LayerNorm{16});
  nn::RMSNorm rms_norm = add("rms_norm", nn::RMSNorm{16});
  Tensor forward(const Tensor& x) const {
    const Tensor images = group_norm(batch_norm(conv(x)));
    return rms_norm(layer_norm(linear(images.flatten(1))));
  }
};

void run_scope(const Factor& net, const Values& gradient, optim::Optimizer& optimizer,
               const amp::ScaleLossOptions& options = {}) {
  amp::scale_loss(sum(net(on_device(gradient))), optimizer, options, run_backward);
}

/** Returns the gradient that updates read. */
Tensor gradient(const optim::Optimizer& optimizer) { return optimizer.params()[0].grad(); }

amp::Options dynamic_options(const char* level) {
  amp::Options options = quiet(level);
  options.loss_scale = "dynamic";
  return options;
}

/** Returns the options of a level whose losses are scaled by 64. */
amp::Options times_64(const char* level) {
  amp::Options options = quiet(level);
  options.loss_scale = 64.0;
  return options;
}

/** Returns how many bytes of gradients the device has. */
std::int64_t gradient_bytes() {
  return memory_stats(test_device())[MemoryCategory::gradients].current;
}

}  // namespace

TEST_CASE("gradients of convolutions, norms and linear layers stay scaled", "[gradients]") {
  for (const char* level : {"O1", "O2", "O5"}) {
    const Norms net;
    net.to(test_device());
    optim::FusedAdam optimizer(net.parameters(), {.lr = 0.01});
    auto session = amp::initialize(net, optimizer, quiet(level));
    const Tensor x = randn({5, 3, 2, 2}, {.device = test_device()});
    amp::scale_loss(mean(square(net(x))), optimizer, run_backward);
    int index = 0;
    for (const Tensor& p : optimizer.params()) {
      INFO(level << " parameter " << index++ << " " << p);
      CHECK(p.grad().impl()->storage->late_write() != nullptr);
    }
    optimizer.step();
  }
}

TEST_CASE("who reads gradients, and when, changes no training", "[gradients]") {
  for (const char* level : levels::names())
    for (const optimizers::Kind& kind : optimizers::kinds()) {
      INFO(level << " " << kind.name);
      const TrainedValues none = trained(level, kind.make, {}),
                          before = trained(level, kind.make, {.before = true}),
                          after = trained(level, kind.make, {.after = true}),
                          all = trained(level, kind.make,
                                        {.before = true, .after = true, .scaled = true});
      for (const TrainedValues* const other : {&before, &after, &all}) {
        CHECK(same(other->weights, none.weights));
        CHECK(other->scale == none.scale);
      }
      CHECK(!before.before.empty());
      CHECK(same(after.after, before.before));
      CHECK(same(all.before, before.before));
      CHECK(same(all.after, before.before));
    }
}

TEST_CASE("clipping in a step gives the bits of clipping read gradients", "[gradients]") {
  const optimizers::Factory adam = optimizers::factory<optim::FusedAdam>(optim::FusedAdamOptions{});
  for (const char* level : {"O1", "O2", "O5"}) {
    INFO(level);
    const TrainedValues scaled = trained(level, adam, {.max_norm = 0x1p-8}),
                        read = trained(level, adam, {.before = true, .max_norm = 0x1p-8});
    CHECK(same(scaled.weights, read.weights));
    CHECK(!same(scaled.weights, trained(level, adam, {}).weights));
  }
}

TEST_CASE("a session with masters allocates no f32 gradient that is not read", "[gradients]") {
  constexpr std::int64_t kCount = 4096;
  for (const char* level : {"O2", "O5"}) {
    INFO(level);
    const Factor net(Values(kCount, 1));
    optim::FusedAdam optimizer(net.parameters(), {.lr = 0.25});
    const auto session = amp::initialize(net, optimizer, quiet(level));
    const std::int64_t start = gradient_bytes();
    for (int i = 0; i < 2; ++i) {
      optimizer.zero_grad();
      CHECK(gradient_bytes() == start);
      run_scope(net, Values(kCount, 0.5), optimizer);
      CHECK(gradient_bytes() == start + 2 * kCount);
      optimizer.step();
      CHECK(gradient_bytes() == start + 2 * kCount);
    }
    CHECK(gradient(optimizer).dtype() == f32);
    CHECK(values(gradient(optimizer)) == Values(kCount, 0.5));
    CHECK(gradient_bytes() == start + 6 * kCount);
  }
}

TEST_CASE("a scale that changes after the scope leaves its gradients as they are", "[gradients]") {
  for (const char* level : {"O1", "O2"})
    for (const double scale : {1024.0, 3000.0, 3000.7}) {
      INFO(level << " " << scale);
      const Factor net({1, 1});
      optim::SGD optimizer(net.parameters(), {.lr = 0.25});
      auto session = amp::initialize(net, optimizer, dynamic_options(level));
      session.loss_scaler().set_loss_scale(scale);
      run_scope(net, {2, 4}, optimizer);
      const Tensor late = gradient(optimizer);
      session.loss_scaler().set_loss_scale(64);
      optimizer.step();
      const Values stepped = first_weight(optimizer);
      CHECK(stepped[0] == Approx(0.5).epsilon(1e-3));  // scaled gradients are f16 at O2
      CHECK(std::fabs(stepped[1]) <= 2e-3);
      session.loss_scaler().set_loss_scale(16);
      CHECK(values(late)[0] == Approx(2).epsilon(1e-3));
      CHECK(values(late)[1] == Approx(4).epsilon(1e-3));
      optimizer.step();  // from the same gradient
      CHECK(first_weight(optimizer)[0] == Approx(2 * stepped[0] - 1).margin(1e-6));
    }
}

TEST_CASE("writes between scope and step reach the update", "[gradients]") {
  for (const char* level : levels::names())
    for (const bool clips : {false, true}) {
      INFO(level << ", clips " << clips);
      const Factor net({1, 1});
      optim::SGD optimizer(net.parameters(), {.lr = 0.25});
      const auto session = amp::initialize(net, optimizer, times_64(level));
      run_scope(net, {3, 4}, optimizer);
      const NoGrad no_grad;
      if (clips)
        CHECK(values(optim::clip_grad_norm(amp::master_params(optimizer), 2.5))[0] == 5);
      else
        gradient(optimizer).mul_(0.5);
      CHECK(values(gradient(optimizer))[0] == Approx(1.5).epsilon(1e-2));
      optimizer.step();
      CHECK(first_weight(optimizer)[0] == Approx(0.625).epsilon(1e-2));
      CHECK(std::fabs(first_weight(optimizer)[1] - 0.5) < 1e-2);
    }
}

TEST_CASE("a write to the scaled gradient leaves the master's as it was", "[gradients]") {
  for (const char* level : {"O2", "O5"}) {
    INFO(level);
    const Factor net({1, 1});
    optim::SGD optimizer(net.parameters(), {.lr = 0.25});
    const auto session = amp::initialize(net, optimizer, times_64(level));
    for (const bool steps : {false, true}) {
      optimizer.zero_grad();
      run_scope(net, {2, 4}, optimizer);
      if (steps) optimizer.step();
      const Tensor late = gradient(optimizer);
      const NoGrad no_grad;
      net.w.grad().fill_(7);
      CHECK(values(late) == Values{2, 4});
    }
  }
}

TEST_CASE("gradients that are kept outlive zero_grad, their optimizer and session", "[gradients]") {
  for (const char* level : levels::names())
    for (const int ends : {0, 1, 2, 3}) {
      INFO(level << " " << ends);
      const Factor net({1, 1});
      auto optimizer = std::make_unique<optim::SGD>(net.parameters(), 0.25);
      std::optional<amp::Session> session(amp::initialize(net, *optimizer, times_64(level)));
      run_scope(net, {2, 4}, *optimizer);
      const Tensor kept = gradient(*optimizer);
      if (ends != 0) optimizer->step();
      optimizer->zero_grad();
      if (ends == 2) run_scope(net, {5, 6}, *optimizer);
      if (ends == 3) {
        session.reset();
        optimizer.reset();
      }
      CHECK(values(kept) == Values{2, 4});
    }
}

TEST_CASE("zero_grad(false) drops gradients that were not read", "[gradients]") {
  for (const char* level : levels::names())
    for (const bool steps : {false, true}) {
      INFO(level << ", steps " << steps);
      const Factor net({1, 1});
      optim::SGD optimizer(net.parameters(), {.lr = 0.25});
      const auto session = amp::initialize(net, optimizer, times_64(level));
      run_scope(net, {2, 4}, optimizer);
      if (steps) optimizer.step();
      optimizer.zero_grad(false);
      CHECK(values(net.w.grad()) == Values{0, 0});
      const Values former = first_weight(optimizer);
      run_scope(net, {1, 2}, optimizer);
      optimizer.step();
      CHECK(first_weight(optimizer) == Values{former[0] - 0.25, former[1] - 0.5});
    }
}

TEST_CASE("scopes add to gradients that were not read", "[gradients]") {
  for (const char* level : levels::names())
    for (const bool delays : {false, true})
      for (const bool steps : {false, true}) {
        INFO(level << ", delays " << delays << ", steps " << steps);
        const Factor net({1, 1});
        optim::SGD optimizer(net.parameters(), {.lr = 0.25});
        const auto session = amp::initialize(net, optimizer, times_64(level));
        run_scope(net, {2, 4}, optimizer, {.delay_unscale = delays});
        if (steps && !delays) optimizer.step();
        const Values former = first_weight(optimizer);
        amp::scale_loss(sum(net(on_device({1, 2}))), optimizer, [&](const Tensor& scaled) {
          scaled.backward({}, true);
          scaled.backward();
        });
        CHECK(values(gradient(optimizer)) == Values{4, 8});
        optimizer.step();
        CHECK(first_weight(optimizer) == Values{former[0] - 1, former[1] - 2});
      }
}

TEST_CASE("a part of a net that is frozen, or not in the loss, changes no scaled read",
          "[gradients]") {
  for (const char* level : levels::names()) {
    INFO(level);
    const Factor net({1, 1}), frozen({1, 1}), unused({1, 1});
    frozen.w.requires_grad_(false);
    optim::SGD optimizer(net.parameters(), {.lr = 0.25});
    optimizer.add_param_group(frozen.parameters(), {.lr = 0.25});
    optimizer.add_param_group(unused.parameters(), {.lr = 0.25});
    const auto session = amp::initialize({net, frozen, unused}, optimizer, times_64(level));
    run_scope(net, {2, 4}, optimizer);
    optimizer.step();
    CHECK(first_weight(optimizer) == Values{0.5, 0});
    CHECK(values(frozen.w) == Values{1, 1});
    CHECK(values(unused.w) == Values{1, 1});
  }
}

TEST_CASE("two losses of one optimizer before a step leave the gradients of both", "[gradients]") {
  for (const char* level : {"O1", "O2"}) {
    INFO(level);
    const Factor a({1, 1}), b({1, 1});
    optim::SGD of_a(a.parameters(), {.lr = 0.25}), of_b(b.parameters(), {.lr = 0.25});
    amp::Options options = dynamic_options(level);
    options.num_losses = 2;
    auto session = amp::initialize({a, b}, {of_a, of_b}, options);
    for (const int loss_id : {0, 1}) {  // of one loss scale, or of two
      of_a.zero_grad();
      of_b.zero_grad();
      session.loss_scaler(loss_id).set_loss_scale(1024);
      const Values of_a_before = first_weight(of_a), of_b_before = first_weight(of_b);
      run_scope(a, {1, 2}, of_a);
      run_scope(b, {2, HUGE_VAL}, of_b, {.loss_id = loss_id});
      of_b.step();
      of_a.step();
      CHECK(first_weight(of_b) == of_b_before);
      CHECK(first_weight(of_a) == Values{of_a_before[0] - 0.25, of_a_before[1] - 0.5});
      CHECK(values(gradient(of_b)) == Values{2, HUGE_VAL});
      CHECK(values(gradient(of_a)) == Values{1, 2});
    }
  }
}
