// Losses that reach the parameters of several wrappers.
#include "../support/levels.h"
#include "bucketings.h"

using namespace trainees;

TEST_CASE("a loss may reach the parameters of several wrappers, different ones on each rank") {
  const QuietLog quiet;
  for (const auto& [use_name, uses] : kUses)
    for (const auto& [name, options] : bucketings()) {
      INFO(use_name << ", " << name);
      const std::vector<Shape> shapes{{4}, {2, 3}, {1}, {300'000}, {5}};
      const Weighted a(shapes), b(shapes);
      const Wrapped net_a(a, options), net_b(b, options);
      for (int step = 1; step <= 4; ++step) {
        const auto factor = [&, uses = uses](int r, std::size_t i, int net) {
          const bool used =
              uses(r, step + net, (i + static_cast<std::size_t>(net)) % shapes.size());
          return used || i == 4 ? size() * static_cast<double>(step + r + 1 + net) : 0;
        };
        Factors mine[2], expected[2];
        for (int net = 0; net < 2; ++net)
          for (std::size_t i = 0; i < shapes.size(); ++i) {
            mine[net].push_back(factor(rank(), i, net));
            const double sum = total_over_ranks([&](int r) { return factor(r, i, net); });
            expected[net].push_back(sum == 0 ? kNone : sum / size());
          }
        a.zero_grad();
        b.zero_grad();
        (a.loss(mine[0]) + b.loss(mine[1])).backward();
        CHECK(wrong_gradients(a, expected[0]) == "");
        CHECK(wrong_gradients(b, expected[1]) == "");
      }
    }
}

namespace {

/** Maps noise to a sample. */
struct Maker : nn::Model<Maker> {
  nn::Linear fc1 = add("fc1", nn::Linear{4, 16});
  nn::Linear fc2 = add("fc2", nn::Linear{16, 8});
  Tensor forward(const Tensor& x) const { return tanh(fc2(relu(fc1(x)))); }
};

/** Judges samples. */
struct Judge : nn::Model<Judge> {
  nn::Linear fc1 = add("fc1", nn::Linear{8, 16});
  nn::Linear fc2 = add("fc2", nn::Linear{16, 1});
  Tensor forward(const Tensor& x) const { return fc2(tanh(fc1(x))); }
};

/** Two nets that train against each other, with a loss scale for each of the three losses. */
struct Adversaries {
  explicit Adversaries(const char* level) {
    amp::Options options = quiet(level);
    options.num_losses = 3;
    session.emplace(amp::initialize({maker, judge}, {making, judging}, options));
  }

  /** The losses of judge (two) and maker on a batch. */
  Tensor real_loss(std::uint64_t batch) const {
    const Tensor x = normal(batch, {4, 8}).requires_grad_();
    const Tensor y = judge(x);
    const Tensor slope = grad(sum(y.to(f32)), x, {.create_graph = true});
    return mean(softplus(-y.to(f32))) + mean(slope * slope) * 0.5;  // a gradient penalty
  }
  Tensor fake_loss(std::uint64_t batch) const {
    return mean(softplus(judge(maker(normal(batch + 1, {4, 4})).detach()).to(f32)));
  }
  Tensor maker_loss(std::uint64_t batch) const {
    return mean(softplus(-judge(maker(normal(batch + 2, {4, 4}))).to(f32)));
  }

  states::State state() {
    states::State all;
    add_state(all, maker, making, *session);
    for (auto& [name, value] : std::exchange(all, {})) all["maker " + name] = value;
    add_state(all, judge, judging, *session);
    return all;
  }

  Maker maker;
  Judge judge;
  optim::AdamW making{maker.parameters(), {.lr = 0.01}};
  optim::SGD judging{judge.parameters(), {.lr = 0.02, .momentum = 0.9}};
  std::optional<amp::Session> session;
};

/** Adds what f() computes to the gradients whole, as a wrapper does. */
template <class F> void add_whole(const nn::Module& model, const F& f) {
  std::vector<Tensor> former;
  for (const Tensor& p : model.parameters()) former.push_back(p.grad()), p.set_grad({});
  f();
  const std::vector<Tensor> params = model.parameters();
  for (std::size_t i = 0; i < params.size(); ++i)
    if (former[i].defined()) params[i].set_grad(former[i] + params[i].grad());
}

/** Trains on the batches of this rank, or in one process on those of all ranks, in turn. */
states::State train_adversaries(const char* level, bool is_wrapped) {
  manual_seed(3 + (is_wrapped ? static_cast<std::uint64_t>(rank()) : 0));
  Adversaries nets(level);
  const bool divides = !is_wrapped || std::string(level) == "O3";
  const Options options{.comm = ranks(),
                        .first_bucket_mib = kTinyMib,
                        .reduce_dtype = nn::ReduceDtype::same,
                        .average = !divides,
                        .predivide_factor = 1,
                        .order = comm::Order::ranks};
  std::optional<nn::DistributedDataParallel<Judge>> judge;
  std::optional<nn::DistributedDataParallel<Maker>> maker;
  if (is_wrapped) judge.emplace(nets.judge, options), maker.emplace(nets.maker, options);
  const double factor = divides ? 1.0 / size() : 1;
  const bool scales = nets.session->options().masters() || nets.session->options().dynamic();
  const int first = is_wrapped ? rank() : 0, count = is_wrapped ? 1 : size();
  for (int step = 0; step < 6; ++step) {
    const auto scopes = [&](int loss_id, optim::Optimizer& optimizer, auto loss_of) {
      for (int i = 0; i < count; ++i)
        amp::scale_loss(loss_of(static_cast<std::uint64_t>(100 * step + 10 * (first + i))),
                        optimizer, {.loss_id = loss_id, .delay_unscale = i + 1 < count},
                        [](const Tensor& loss) { loss.backward(); });
    };
    nets.judging.zero_grad();
    scopes(0, nets.judging, [&](auto batch) { return nets.real_loss(batch); });
    const auto fake = [&] {
      scopes(1, nets.judging, [&](auto batch) { return nets.fake_loss(batch); });
    };
    scales ? fake() : add_whole(nets.judge, fake);
    (void)nets.judging.step({.inv_scale = factor});
    nets.making.zero_grad();
    scopes(2, nets.making, [&](auto batch) { return nets.maker_loss(batch); });
    (void)nets.making.step({.inv_scale = factor});
  }
  return nets.state();
}

}  // namespace

TEST_CASE("two nets, three losses and a gradient penalty train as in one process") {
  const bool halves = (size() & (size() - 1)) == 0;  // the average of each scope is exact
  for (const char* level : levels::names()) {
    INFO(level);
    const states::State reduced = train_adversaries(level, true);
    CHECK(difference_between_ranks(reduced) == "");
    if (halves) CHECK(states::difference(train_adversaries(level, false), reduced) == "");
  }
}
