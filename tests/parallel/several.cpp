// Parameters that a rank does not use, of any size and layout, and losses that reach two wrappers.
#include <algorithm>

#include "../support/levels.h"
#include "weighted.h"

using namespace trainees;

namespace {

constexpr double kTinyMib = 1e-9;  // every gradient completes a bucket

Tensor normal(std::uint64_t seed, const Shape& shape) {
  return seeded(seed, [&] { return randn(shape); });
}

/** Options that divide the same gradients in different ways. */
std::vector<std::pair<std::string, Options>> bucketings() {
  return {{"default", {.comm = ranks()}},
          {"one bucket", {.comm = ranks(), .bucket_mib = 1000, .first_bucket_mib = 1000}},
          {"a bucket for each",
           {.comm = ranks(), .bucket_mib = kTinyMib, .first_bucket_mib = kTinyMib}},
          {"no overlap", {.comm = ranks(), .first_bucket_mib = kTinyMib, .overlap = false}},
          {"copied", {.comm = ranks(), .first_bucket_mib = 1e-5, .gradients_are_views = false}},
          {"fast", {.comm = ranks(), .first_bucket_mib = 1e-5, .order = comm::Order::fast}},
          {"predivided", {.comm = ranks(), .first_bucket_mib = kTinyMib, .predivide_factor = 4}},
          {"static", {.comm = ranks(), .first_bucket_mib = 1e-5, .static_graph = true}}};
}

/** Leaves of all layouts: a scalar, no elements, larger than a bucket, transposed, with gaps,
 *  channels-last. */
std::vector<Tensor> values_of_all_layouts() {
  return {ones({3}),
          ones({}),
          ones({0}),
          ones({2, 5}),
          ones({300, 500}),  // 600 kB: reduced in its own memory
          ones({400, 400}),
          ones({5, 2}).t(),
          ones({4, 6}).slice(1, 1, 4),
          ones({2, 3, 4, 5}).to(MemoryFormat::channels_last),
          ones({1})};
}

}  // namespace

TEST_CASE("gradients are averages, whatever the buckets and the layouts of the parameters") {
  for (const auto& [name, options] : bucketings()) {
    INFO(name);
    const Weighted model(values_of_all_layouts());
    const Wrapped net(model, options);
    for (int step = 1; step <= 4; ++step) {
      const auto factor = [&](int r, std::size_t i) {
        return size() * static_cast<double>(step * (r + 1) + static_cast<int>(i));
      };
      Factors mine, expected;
      for (std::size_t i = 0; i < model.params.size(); ++i) {
        mine.push_back(factor(rank(), i));
        expected.push_back(mean_over_ranks([&](int r) { return factor(r, i); }));
      }
      model.zero_grad();
      model.loss(mine).backward();
      CHECK(wrong_gradients(model, expected) == "");
      for (const Tensor& p : model.params) CHECK(p.grad().shape() == p.shape());
    }
  }
}

TEST_CASE("gradients of all dtypes are reduced without mixed precision") {
  using nn::ReduceDtype;
  for (const auto dtype : {ReduceDtype::automatic, ReduceDtype::same, ReduceDtype::f32})
    for (const double bucket_mib : {kTinyMib, 1000.0}) {
      INFO(static_cast<int>(dtype) << ", " << bucket_mib);
      const Weighted model(std::vector{ones({3}).to(f16), ones({4}), ones({300'000}).to(bf16),
                                       ones({2}).to(f64), ones({5}).to(bf16),
                                       ones({300'000}).to(f16), ones({100'000}).to(f64)});
      const Wrapped net(model, {.comm = ranks(),
                                .bucket_mib = bucket_mib,
                                .first_bucket_mib = bucket_mib,
                                .reduce_dtype = dtype});
      for (int step = 1; step <= 4; ++step) {
        const double mine = size() * (step + rank()),
                     mean = sum_over_ranks([&](int r) { return step + r; });
        model.zero_grad();
        for (int pass = 1; pass <= 2; ++pass) {
          model.loss(Factors(model.params.size(), mine)).backward();
          CHECK(wrong_gradients(model, Factors(model.params.size(), pass * mean)) == "");
        }
        for (const Tensor& p : model.params) CHECK(p.grad().dtype() == p.dtype());
      }
    }
}

namespace {

/** Two layers whose results are computed again in the backward pass. */
struct Recomputed : nn::Model<Recomputed> {
  nn::Linear fc1 = add("fc1", nn::Linear{6, 7});
  nn::Linear fc2 = add("fc2", nn::Linear{7, 5});
  bool again = true;
  Tensor forward(const Tensor& x) const {
    const auto block = [this](const Tensor& y) { return tanh(fc2(relu(fc1(y)))); };
    return again ? nn::checkpoint(block, x) : block(x);
  }
};

}  // namespace

TEST_CASE("recomputed layers have the same reduced gradients") {
  manual_seed(4);
  Recomputed model;
  const nn::DistributedDataParallel<Recomputed> net(
      model, {.comm = ranks(), .first_bucket_mib = kTinyMib});
  for (std::uint64_t step = 0; step < 3; ++step) {
    std::vector<std::string> texts;
    for (const bool again : {true, false}) {
      model.again = again;
      model.zero_grad();
      sum(model(normal(10 * step + static_cast<std::uint64_t>(rank()), {3, 6}))).backward();
      std::string text;
      for (const Tensor& p : model.parameters()) text += states::bytes_of(p.grad());
      texts.push_back(text);
    }
    CHECK(texts[0] == texts[1]);
    CHECK(difference_between_ranks({{"gradients", texts[0]}}) == "");
  }
}

// ---- unused parameters --------------------------------------------------------------------------

namespace {

/** Returns whether a rank's loss depends on a parameter in a step. */
using Use = bool (*)(int rank, int step, std::size_t i);

const std::vector<std::pair<std::string, Use>> kUses{
    {"the same on all ranks", [](int, int, std::size_t i) { return i % 3 != 1; }},
    {"different", [](int r, int, std::size_t i) { return (static_cast<int>(i) + r) % 3 != 1; }},
    {"all but on one rank", [](int r, int, std::size_t i) { return r != 0 || i == 2; }},
    {"none but on one rank", [](int r, int, std::size_t i) { return r == 0 || i == 2; }},
    {"other ones in each step",
     [](int r, int step, std::size_t i) {
       return (static_cast<int>(i) + r * step) % 4 != step % 4;
     }},
    {"different halves",
     [](int r, int, std::size_t i) { return i == 0 || (i < 4) == (r % 2 == 0); }},
};

}  // namespace

TEST_CASE("unused parameters count as zero, and stay without a gradient if no rank uses them") {
  const QuietLog quiet;
  for (const auto& [use_name, uses] : kUses)
    for (const auto& [name, options] : bucketings()) {
      INFO(use_name << ", " << name);
      const Weighted model(std::vector<Shape>{{4}, {2, 3}, {1}, {150'000}, {5}, {}, {3}, {0}});
      const Wrapped net(model, options);
      for (int step = 1; step <= 5; ++step) {
        const auto factor = [&, uses = uses](int r, std::size_t i) {
          return uses(r, step, i) ? size() * static_cast<double>(step + r + 1) : 0;
        };
        Factors mine, expected;
        for (std::size_t i = 0; i < model.params.size(); ++i) {
          mine.push_back(factor(rank(), i));
          const double sum = sum_over_ranks([&](int r) { return factor(r, i); });
          expected.push_back(sum == 0 ? kNone : sum / size());
        }
        model.zero_grad();
        model.loss(mine).backward();
        CHECK(wrong_gradients(model, expected) == "");
      }
    }
}

TEST_CASE("the gradient of a parameter that no rank uses stays as it was") {
  const QuietLog quiet;
  const Weighted model(std::vector<Shape>{{4}, {3}, {150'000}});
  const Wrapped net(model, {.comm = ranks(), .first_bucket_mib = kTinyMib});
  const double n = size();
  model.loss({n, 2 * n, 3 * n}).backward();
  model.loss({n, 0, 0}).backward();
  CHECK(wrong_gradients(model, {2 * n, 2 * n, 3 * n}) == "");
  model.zero_grad(false);
  model.loss({0, n, 0}).backward();
  CHECK(wrong_gradients(model, {0, n, 0}) == "");
}

TEST_CASE("unused parameters are named once in the log") {
  if (size() == 1) return;
  std::string lines;
  const LogSink former =
      set_log_sink([&](Severity, std::string_view line) { lines += str(line, "\n"); });
  const Weighted model(std::vector<Shape>(8, Shape{2}));
  const Wrapped net(model, {.comm = ranks()});
  for (int step = 0; step < 3; ++step) model.loss({1, 0, 0, 0, 0, 0, 0, 0}).backward();
  set_log_sink(former);
  CHECK(lines ==
        "DistributedDataParallel: the loss does not depend on p1, p2, p3, p4, p5 and 2 more\n");
}

TEST_CASE("unused parameters can be refused, on all ranks") {
  const QuietLog quiet;
  if (size() == 1) return;
  const Weighted model(std::vector<Shape>{{4}, {3}, {2}});
  const Wrapped net(model, {.comm = ranks(), .unused = nn::UnusedParameters::refuse});
  for (int step = 0; step < 2; ++step)
    CHECK_THROWS_WITH_AS_TEXT(model.loss({1, 0, 1}).backward(), StateError,
                              "DistributedDataParallel: the loss does not depend on all "
                              "parameters; got no gradient for p1; freeze them, or pass .unused = "
                              "UnusedParameters::allow");
  const double n = size();
  model.zero_grad();
  model.loss({n, rank() == 0 ? n : 0, n}).backward();  // used by one rank
  CHECK(wrong_gradients(model, {n, 1, n}) == "");
}

// ---- which parameters take part -----------------------------------------------------------------

namespace {

/** Two layers that share their weight; `frozen` is not trained. */
struct Tied : nn::Model<Tied> {
  Tied() { frozen.requires_grad_(false); }
  nn::Linear first = add("first", nn::Linear{3, 3, {.bias = false}});
  nn::Linear frozen = add("frozen", nn::Linear{3, 3});
  Tensor again = add_parameter("again", first.weight());
  Tensor loss(double factor) const { return sum(first.weight() + again * 2.0) * factor; }
};

}  // namespace

TEST_CASE("shared parameters are reduced once, frozen ones never") {
  const Tied model;
  const nn::DistributedDataParallel<Tied> net(model, {.comm = ranks()});
  for (int step = 0; step < 3; ++step) {
    model.zero_grad();
    model.loss(rank() + 1).backward();
    CHECK(all_are(model.again.grad(), 3 * mean_over_ranks([](int r) { return r + 1; })));
    CHECK(!model.frozen.weight().grad().defined());
  }
}

TEST_CASE("a model without trained parameters can be wrapped") {
  nn::Linear layer{2, 2};
  layer.freeze();
  const nn::DistributedDataParallel<nn::Linear> net(layer, {.comm = ranks()});
  const Tensor x = ones({1, 2}).requires_grad_();
  sum(net(x)).backward();
  CHECK(x.grad().defined());
}

TEST_CASE("triggers decide which gradients are reduced together") {
  const Weighted model(std::vector<Shape>{{4}, {300'000}, {2}, {3}});
  for (const auto& triggers :
       {std::vector{model.params[2]}, model.params, std::vector{model.params[0]}}) {
    const Wrapped net(model, {.comm = ranks(), .triggers = triggers});
    for (int step = 0; step < 4; ++step) {
      model.zero_grad();
      const double n = size() * (rank() + 1);
      model.loss({n, 2 * n, 3 * n, 4 * n}).backward();
      const double mean = sum_over_ranks([](int r) { return r + 1; });
      CHECK(wrong_gradients(model, {mean, 2 * mean, 3 * mean, 4 * mean}) == "");
    }
  }
}

TEST_CASE("a gradient that the program keeps is not overwritten by later passes") {
  for (const auto& [name, options] : bucketings()) {
    INFO(name);
    const Weighted model(std::vector<Shape>{{4}, {150'000}, {2}});
    const Wrapped net(model, options);
    std::vector<Tensor> kept, views;
    for (int step = 1; step <= 4; ++step) {
      model.zero_grad();
      const double n = step * size();
      model.loss({n, n, n}).backward();
      for (const Tensor& p : model.params) {
        kept.push_back(p.grad());
        views.push_back(p.grad().slice(0, 1, 2));
      }
    }
    for (std::size_t i = 0; i < kept.size(); ++i) {
      const auto expected = static_cast<double>(size() * (1 + static_cast<int>(i) / 3));
      CHECK(all_are(kept[i], expected));
      CHECK(all_are(views[i], expected));
    }
  }
}

TEST_CASE("hooks see the gradients of this rank, later ones the reduced gradients") {
  const Weighted model(std::vector<Shape>{{4}, {150'000}});
  const Wrapped net(model, {.comm = ranks(), .first_bucket_mib = kTinyMib});
  std::vector<Tensor> seen;
  std::string order;
  register_hook(model.params[1], [&](const Tensor& g) {
    seen.push_back(g);
    return g * 2.0;
  });
  for (const std::size_t i : {0, 1})
    register_post_accumulate_grad_hook(model.params[i], [&, i](const Tensor& leaf) {
      order += str(i);
      CHECK(all_are(leaf.grad(), i == 0 ? size() : 2 * size()));
    });
  for (int step = 0; step < 3; ++step) {
    model.zero_grad();
    const double n = 2 * rank() + 1;  // mean: size()
    model.loss({n, n}).backward();
    CHECK(all_are(seen.back(), n));
  }
  CHECK(order == (size() == 1 ? "101010" : "010101"));
}

// ---- several wrappers ---------------------------------------------------------------------------

TEST_CASE("a loss may reach the parameters of several wrappers, different ones on each rank") {
  const QuietLog quiet;
  for (const auto& [use_name, uses] : kUses)
    for (const auto& [name, options] : bucketings()) {
      INFO(use_name << ", " << name);
      const std::vector<Shape> shapes{{4}, {2, 3}, {1}, {150'000}, {5}};
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
            const double sum = sum_over_ranks([&](int r) { return factor(r, i, net); });
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

TEST_CASE("grad() reduces nothing, and create_graph is refused") {
  if (size() == 1) return;
  const Weighted model(std::vector<Shape>{{3}});
  const Wrapped net(model, {.comm = ranks()});
  const double mine = rank() + 1;
  CHECK(all_are(grad(model.loss({mine}), model.params[0]), mine));
  const Tensor& p = model.params[0];
  CHECK_THROWS_WITH_AS_TEXT(backward(sum(p * p), {}, false, true), Unsupported,
                            "DistributedDataParallel: create_graph = true with reduced gradients; "
                            "use grad(), which reduces nothing, or no_sync()");
  CHECK(!p.grad().defined());
  {
    const auto local = net.no_sync();
    backward(sum(p * p), {}, false, true);
    CHECK(all_are(p.grad(), 2));
  }
  model.zero_grad();
  model.loss({size() * mine}).backward();
  CHECK(wrong_gradients(model, {sum_over_ranks([](int r) { return r + 1; })}) == "");
}

TEST_CASE("a backward pass in a hook of another one adds to its gradients") {
  const QuietLog quiet;
  const Weighted model(std::vector<Shape>{{3}, {4}}), other(std::vector<Shape>{{2}});
  const Options options{.comm = ranks(), .overlap = false};
  const Wrapped net(model, options), other_net(other, options);
  const double n = size() * (rank() + 1), mean = sum_over_ranks([](int r) { return r + 1; });
  register_hook(model.params[1], [&](const Tensor&) {
    const GradMode recording(true);
    model.loss({n, 0}).backward();
    other.loss({3 * n}).backward();
    return Tensor();
  });
  for (int step = 0; step < 3; ++step) {
    model.zero_grad();
    other.zero_grad();
    model.loss({step == 0 ? 0 : n, 2 * n}).backward();
    CHECK(wrong_gradients(model, {step == 0 ? mean : 2 * mean, 2 * mean}) == "");
    CHECK(wrong_gradients(other, {3 * mean}) == "");
  }
}

// ---- overlap ------------------------------------------------------------------------------------

TEST_CASE("a large product has the gradients of the pass that computed them", "[race]") {
  // As apex's test of races: two large parameters, new data in each pass, sums known beforehand.
  constexpr std::int64_t kSize = 1 << 18;
  const std::vector<std::pair<std::string, Options>> all{
      {"a bucket for each",
       {.comm = ranks(),
        .bucket_mib = kTinyMib,
        .first_bucket_mib = kTinyMib,
        .predivide_factor = 8}},
      {"no overlap", {.comm = ranks(), .overlap = false}},
      {"fast", {.comm = ranks(), .order = comm::Order::fast}}};
  for (const auto& [name, options] : all)
    for (const std::int64_t size_of_one : {kSize, std::int64_t{1000}}) {
      INFO(name << ", " << size_of_one << " elements");
      const Weighted model(std::vector{full({size_of_one}, 1.0), full({size_of_one}, 2.0)});
      const Wrapped net(model, options);
      const Tensor x = empty({size_of_one});
      for (int i = 0; i < 10; ++i) {
        x.fill_(size() * (i + rank()));
        model.zero_grad();
        sum(x * model.params[0] * model.params[1]).backward();
        const double mean = sum_over_ranks([&](int r) { return i + r; });
        CHECK(wrong_gradients(model, {2 * mean, mean}) == "");
      }
    }
}
