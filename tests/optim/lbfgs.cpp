// LBFGS: minima, saving and loading, refusals, closures that fail. ../golden/training.cpp compares
// it with PyTorch's.
#include <mezzo.h>

#include "../io/files.h"
#include "../support/catch.h"
#include "../support/throws.h"

using namespace mezzo;
using optim::LBFGS;
using optim::LbfgsOptions;
using optim::LineSearch;

namespace {

/** Parameters of two tensors, and a closure with Rosenbrock's function of their elements. */
struct Valley {
  Tensor x, y;

  explicit Valley(DType dtype = f32)
      : x(tensor({-1.2, 0.8}, {.dtype = dtype}).requires_grad_()),
        y(tensor({1.0, 0.5}, {.dtype = dtype}).requires_grad_()) {}

  std::vector<Tensor> params() const { return {x, y}; }
  Tensor loss() const {
    const Tensor wide = x.to(f32), rise = y.to(f32) - wide * wide, rest = 1 - wide;
    return sum(10 * rise * rise + rest * rest);
  }
  std::function<Tensor()> closure(LBFGS& optimizer) const {
    return [this, &optimizer] {
      optimizer.zero_grad();
      const Tensor value = loss();
      value.backward();
      return value;
    };
  }
  std::vector<double> values() const {
    std::vector<double> out = x.to_vector<double>();
    for (const double v : y.to_vector<double>()) out.push_back(v);
    return out;
  }
};

const LbfgsOptions kSearching{.max_iter = 4, .line_search_fn = LineSearch::strong_wolfe};

}  // namespace

TEST_CASE("LBFGS finds a minimum", "[lbfgs]") {
  const Valley valley;
  LBFGS optimizer(valley.params(), {.line_search_fn = LineSearch::strong_wolfe});
  const double before = valley.loss().item();
  CHECK(optimizer.step(valley.closure(optimizer)).item() == before);
  for (int i = 0; i < 3; ++i) optimizer.step(valley.closure(optimizer));
  for (const double v : valley.values()) CHECK(v == Approx(1).margin(1e-3));
  CHECK(optimizer.last_result() == optim::StepResult::stepped);
  CHECK(optimizer.options().max_eval == 25);
}

TEST_CASE("LBFGS trains 16-bit parameters with vectors of f32", "[lbfgs]") {
  for (const DType dtype : {f16, bf16}) {
    const Valley valley(dtype);
    LBFGS optimizer(valley.params(), kSearching);
    const double before = valley.loss().item();
    for (int i = 0; i < 5; ++i) optimizer.step(valley.closure(optimizer));
    CHECK(valley.loss().item() < 0.1 * before);
    CHECK(optimizer.state_dict().tensors.at("0.prev_grad").dtype() == f32);
  }
}

TEST_CASE("LBFGS steps at the rate of a schedule, and counts its steps", "[lbfgs]") {
  const Tensor p = tensor(4.0).requires_grad_();
  LBFGS optimizer({p}, {.lr = 0.5, .max_iter = 1});
  optim::Scheduler schedule(optimizer, optim::ExponentialLR{.gamma = 0.5});
  const auto closure = [&] {
    optimizer.zero_grad();
    const Tensor loss = p * p / 2;
    loss.backward();
    return loss;
  };
  optimizer.step(closure);
  CHECK(p.item() == 4 - 0.5);  // the first step has the length lr
  schedule.step();
  optimizer.step(closure);
  CHECK(p.item() == Approx(3.5 - 0.25 * 3.5));  // then the inverse Hessian, which is 1
  CHECK(optimizer.slots(0)[0].steps == 2);
}

TEST_CASE("LBFGS resumes bit for bit from a state dict and from a checkpoint", "[lbfgs]") {
  for (const LineSearch search : {LineSearch::none, LineSearch::strong_wolfe}) {
    const LbfgsOptions options{
        .lr = 0.1, .max_iter = 3, .history_size = 4, .line_search_fn = search};
    const auto made = [] {
      manual_seed(5);
      return nn::Sequential(nn::Linear(3, 4), nn::Tanh(), nn::Linear(4, 1));
    };
    const nn::Sequential net = made(), same = made(), third = made();
    const Tensor x = randn({30, 3}), y = sin(x.narrow(1, 0, 1));
    LBFGS optimizer(net.parameters(), options), resumed(same.parameters()),
        read(third.parameters());
    const auto train = [&](const nn::Sequential& model, LBFGS& with) {
      for (int i = 0; i < 4; ++i)
        with.step([&] {
          with.zero_grad();
          const Tensor loss = mse_loss(model(x), y);
          loss.backward();
          return loss;
        });
    };
    train(net, optimizer);
    same.load_state_dict(net.state_dict());
    resumed.load_state_dict(optimizer.state_dict(net.named_parameters()), same.named_parameters());
    CHECK(resumed.options().history_size == 4);
    CHECK(optimizer.state_dict().tensors.at("0.old_dirs").shape() == Shape{4, 12});
    const files::Directory folder = files::Directory::fast();
    amp::save_checkpoint(folder.path(), {.model = net, .optimizer = optimizer});
    amp::load_checkpoint(folder.path(), {.model = third, .optimizer = read});
    train(net, optimizer);
    train(same, resumed);
    train(third, read);
    for (std::size_t i = 0; i < net.parameters().size(); ++i) {
      CHECK(equal(net.parameters()[i], same.parameters()[i]));
      CHECK(equal(net.parameters()[i], third.parameters()[i]));
    }
  }
}

TEST_CASE("LBFGS refuses a history that does not fit", "[lbfgs]") {
  const Valley valley;
  LBFGS optimizer(valley.params(), kSearching);
  optimizer.step(valley.closure(optimizer));
  const optim::StateDict good = optimizer.state_dict();
  const auto refused = [&](const auto& change) {
    optim::StateDict bad = good;
    change(bad.tensors);
    CHECK_THROWS_AS(optimizer.load_state_dict(bad), ValueError);
    CHECK_THROWS_AS(optimizer.check_state_dict(bad), ValueError);
    CHECK(equal(optimizer.state_dict().tensors.at("1.old_stps"), good.tensors.at("1.old_stps")));
  };
  refused([](auto& t) { t.erase("1.old_dirs"); });
  refused([](auto& t) { t.erase("0.prev_grad"); });
  refused([](auto& t) { t.erase("0.prev_grad"), t.erase("1.prev_grad"); });
  refused([](auto& t) { t["0.last_step"] = zeros({3}); });
  refused([](auto& t) { t["1.old_stps"] = zeros({1, 2}); });
  refused([](auto& t) { t["0.old_dirs"] = zeros({4}); });
  refused([](auto& t) { t["0.exp_avg"] = zeros({2}); });
  LBFGS fresh(valley.params());
  optimizer.load_state_dict(fresh.state_dict());  // forgets the history
  CHECK(optimizer.state_dict().tensors.empty());
}

TEST_CASE("LBFGS takes one group, a closure, and options in range", "[lbfgs]") {
  const Valley valley;
  using Groups = std::vector<optim::ParamGroup<LbfgsOptions>>;
  CHECK_THROWS_WITH_AS_TEXT(LBFGS(Groups{{{valley.x}, {}}, {{valley.y}, {}}}), ValueError,
                            "LBFGS: takes one group of parameters; got 2 groups");
  CHECK_THROWS_AS(LBFGS(Groups{}), ValueError);
  CHECK(LBFGS(Groups{{{valley.x}, {.lr = 0.5}}}).lr() == 0.5);
  CHECK(LBFGS(valley.params(), 0.25).lr() == 0.25);
  for (const LbfgsOptions& options :
       {LbfgsOptions{.lr = -1}, LbfgsOptions{.max_iter = 0}, LbfgsOptions{.max_eval = 0},
        LbfgsOptions{.tolerance_grad = -1}, LbfgsOptions{.tolerance_change = NAN},
        LbfgsOptions{.history_size = 0}})
    CHECK_THROWS_AS(LBFGS(valley.params(), options), ValueError);

  LBFGS optimizer(valley.params(), kSearching);
  CHECK_THROWS_AS(optimizer.step({}), ValueError);
  CHECK_THROWS_AS(optimizer.step([] { return Tensor{}; }), ValueError);
  CHECK_THROWS_AS(optimizer.step([] { return ones({2}); }), ValueError);
  CHECK_THROWS_WITH_AS_TEXT(optimizer.step([&] { return valley.loss(); }), StateError,
                            "LBFGS.step: no parameter has a gradient");
}

TEST_CASE("LBFGS is refused where steps have no closure", "[lbfgs]") {
  const nn::Linear model(3, 1);
  LBFGS optimizer(model.parameters());
  const std::string text =
      "the step of LBFGS takes a closure; expected an optimizer that steps once for each backward; "
      "call its step(closure), without mixed precision";
  optim::Optimizer& base = optimizer;
  CHECK_THROWS_WITH_AS_TEXT(base.step(), ValueError, "LBFGS.step: " + text);
  CHECK_THROWS_WITH_AS_TEXT(amp::initialize(model, optimizer, {.opt_level = "O1", .verbosity = 0}),
                            ValueError, "amp::initialize: " + text);
  CHECK_THROWS_WITH_AS_TEXT(optim::LARC(optimizer), ValueError, "LARC: " + text);
  amp::GradScaler scaler;
  scaler.scale(sum(model(ones({2, 3})))).backward();
  CHECK_THROWS_WITH_AS_TEXT(scaler.unscale_(optimizer), ValueError, "unscale_: " + text);
  CHECK_THROWS_WITH_AS_TEXT(scaler.step(optimizer), ValueError, "step: " + text);
}

TEST_CASE("a closure runs with the caller's casts, and may throw", "[lbfgs]") {
  Valley valley;
  LBFGS optimizer(valley.params(), kSearching);
  const std::function<Tensor()> good = valley.closure(optimizer);
  int calls = 0;
  const auto failing = [&] {
    if (++calls == 3) throw std::runtime_error("no more data");
    CHECK(grad_enabled());
    return good();
  };
  const std::vector<double> before = valley.values();
  {
    const NoGrad no_grad;
    CHECK_THROWS_WITH(optimizer.step(failing), "no more data");
  }
  const std::vector<double> after = valley.values();
  CHECK((after == before || valley.loss().item() < 25));  // those of an iteration, not of a trial
  for (int i = 0; i < 20; ++i) optimizer.step(good);
  for (const double v : valley.values()) CHECK(v == Approx(1).margin(1e-2));

  const nn::Linear model(3, 1);
  LBFGS of_model(model.parameters(), {.max_iter = 2});
  const amp::autocast casts({.dtype = bf16});
  const Tensor x = ones({2, 3});
  of_model.step([&] {
    of_model.zero_grad();
    const Tensor y = model(x);
    CHECK(y.dtype() == bf16);
    const Tensor loss = sum(square(y.to(f32)));
    loss.backward();
    return loss;
  });
}
