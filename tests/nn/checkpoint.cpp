// nn::checkpoint: recomputation gives the same bits in less memory.
#include "../../nn/recompute.h"

#include "support.h"

using namespace mezzo;

namespace {

struct DropoutBlock : nn::Model<DropoutBlock> {
  nn::Linear in = add("in", nn::Linear{4, 8});
  nn::Dropout drop = add("drop", nn::Dropout{0.4});
  nn::Linear out = add("out", nn::Linear{8, 4});
  Tensor forward(const Tensor& x) const { return x + out(drop(gelu(in(x)))); }
};

/** Returns all results of a training step: the output, the gradients of x and of all parameters,
 *  and the next random number. */
template <class Forward>
std::vector<std::vector<double>> step(const nn::Module& net, const Forward& forward) {
  manual_seed(11);
  const Tensor x = randn({3, 4}, {.requires_grad = true});
  net.zero_grad();
  const Tensor y = forward(x);
  sum(y.to(f32) * y.to(f32)).backward();
  std::vector<std::vector<double>> out{values(y), values(x.grad())};
  for (const Tensor& p : net.parameters()) out.push_back(values(p.grad()));
  out.push_back(values(rand({1})));
  return out;
}

}  // namespace

TEST_CASE("checkpoint: bitwise equal results and gradients to a plain call, dropout included") {
  manual_seed(1);
  const nn::Sequential net{DropoutBlock{}, DropoutBlock{}};
  const DropoutBlock a, b;
  const auto plain = step(net, [&](const Tensor& x) { return net(x); });
  CHECK(step(net, [&](const Tensor& x) { return nn::checkpoint(net, x); }) == plain);
  SECTION("nested") {
    const auto inner = [&](const Tensor& x) { return nn::checkpoint(net, x); };
    CHECK(step(net, [&](const Tensor& x) { return nn::checkpoint(inner, x); }) == plain);
    const auto around = [&](const Tensor& x) { return tanh(nn::checkpoint(net, tanh(x))); };
    CHECK(step(net, [&](const Tensor& x) { return nn::checkpoint(around, x); }) ==
          step(net, [&](const Tensor& x) { return tanh(net(tanh(x))); }));
  }
  SECTION("without recording") {
    const NoGrad no_grad;
    CHECK_FALSE(nn::checkpoint(net, ones({2, 4})).requires_grad());
  }
}

TEST_CASE("checkpoint: recomputes under the casting state of the call") {
  manual_seed(2);
  const DropoutBlock net;
  const auto cast = [&](bool checkpointed) {
    return step(net, [&](const Tensor& x) {
      const amp::autocast guard({.dtype = bf16});
      return checkpointed ? nn::checkpoint(net, x) : net(x);
    });
  };
  CHECK(cast(true) == cast(false));
  CHECK(cast(true) != step(net, [&](const Tensor& x) { return net(x); }));
  const auto guarded_inside = [&](const Tensor& x) {
    const amp::autocast guard({.dtype = bf16});
    return net(x);
  };
  CHECK(step(net, [&](const Tensor& x) { return nn::checkpoint(guarded_inside, x); }) ==
        cast(false));
  for (const char* level : {"O1", "O2", "O5"}) {
    INFO(level);
    const DropoutBlock other;
    const auto session = amp::initialize(other, {.opt_level = level, .verbosity = 0});
    const auto probabilities =
        [&](const Tensor& x) {  // a session allows it in f32, a guard does not
          return binary_cross_entropy(sigmoid(other(x).to(f32)), full({3, 4}, 0.5),
                                      {.reduction = Reduction::none});
        };
    CHECK(step(other, [&](const Tensor& x) { return nn::checkpoint(probabilities, x); }) ==
          step(other, probabilities));
  }
}

TEST_CASE("checkpoint: several arguments, results of any type, captured tensors") {
  manual_seed(3);
  const Tensor a = randn({4}, {.requires_grad = true}), b = randn({4}, {.requires_grad = true});
  const Tensor c = randn({4}, {.requires_grad = true}), hidden = tanh(c);
  const auto f = [hidden](const Tensor& x, const Tensor& y) {
    return std::vector<Tensor>{exp(x) * y * hidden, sin(x * y)};
  };
  const std::vector<Tensor> plain = f(a, b), lean = nn::checkpoint(f, a, b);
  const auto gradients = [&](const std::vector<Tensor>& y) {
    std::vector<std::vector<double>> out;
    for (const Tensor& g :
         grad({y[0], y[1]}, {a, b, c}, {.retain_graph = true}, {ones({4}), ones({4})}))
      out.push_back(values(g));
    return out;
  };
  CHECK(gradients(lean) == gradients(plain));
  CHECK(gradients(lean) == gradients(plain));  // a second backward through the retained graph
  CHECK_FALSE(a.grad().defined());
}

TEST_CASE("checkpoint: second derivatives") {
  manual_seed(4);
  const Tensor w = randn({3, 3}, {.dtype = f64, .requires_grad = true});
  const auto f = [&](const Tensor& x) { return tanh(matmul(x, w)) * exp(x); };
  const auto run = [&](const std::vector<Tensor>& x) {
    return std::vector<Tensor>{nn::checkpoint(f, x[0])};
  };
  const std::vector<Tensor> x{randn({2, 3}, {.dtype = f64, .requires_grad = true})};
  const GradcheckResult first = gradcheck(run, x), second = gradgradcheck(run, x);
  INFO(first.report << second.report);
  CHECK(first.ok);
  CHECK(second.ok);
  // A gradient penalty, whose gradient reaches the weight.
  const auto penalty = [&](const Tensor& y) {
    const Tensor g = grad(sum(y), x[0], {.create_graph = true});
    w.set_grad({});
    sum(g * g).backward();
    return values(w.grad());
  };
  const std::vector<double> lean = penalty(nn::checkpoint(f, x[0])), plain = penalty(f(x[0]));
  for (std::size_t i = 0; i < plain.size(); ++i) CHECK(lean[i] == Approx(plain[i]).epsilon(1e-12));
}

TEST_CASE("checkpoint: peak memory is that of one block") {
  constexpr int kBlocks = 8;
  constexpr std::int64_t kBytes = 64 * 64 * 4;
  const auto deep = [](Tensor x) {
    for (int i = 0; i < 6; ++i) x = tanh(x);
    return x;
  };
  const auto held = [&](bool checkpointed) {
    const Tensor x = ones({64, 64}, {.requires_grad = true});
    const std::int64_t before = memory_stats().total.current;
    Tensor y = x;
    for (int i = 0; i < kBlocks; ++i) y = checkpointed ? nn::checkpoint(deep, y) : deep(y);
    const std::int64_t after = memory_stats().total.current - before;
    reset_peak_memory();
    sum(y).backward();
    const std::int64_t peak = memory_stats().total.peak - before;
    return std::pair{after, peak};
  };
  const auto plain = held(false), lean = held(true);
  CHECK(plain.first >= 6 * kBlocks * kBytes);
  CHECK(lean.first <= (kBlocks + 1) * kBytes);
  CHECK(lean.second <= (kBlocks + 12) * kBytes);
  // Nested: the arguments of the blocks are recomputed too.
  const auto four = [&](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < kBlocks; ++i) y = nn::checkpoint(deep, y);
    return y;
  };
  const Tensor x = ones({64, 64}, {.requires_grad = true});
  const std::int64_t before = memory_stats().total.current;
  const Tensor y = nn::checkpoint(four, x);
  CHECK(memory_stats().total.current - before <= kBytes);
  sum(y).backward();
  CHECK(x.grad().defined());
}

TEST_CASE("checkpoint: reports differences between the two runs") {
  const auto f = [](const Tensor& x) { return exp(x * 2.0); };
  const Tensor leaf = ones({3}, {.requires_grad = true});
  Tensor x = leaf * 1.0;
  Tensor y = nn::checkpoint(f, x);
  x.fill_(2);
  CHECK(error_of<StateError>([&] { sum(y).backward(); }).find("modified in place") !=
        std::string::npos);
  bool again = false;
  const auto fickle = [&](const Tensor& v) {
    const Tensor r = again ? exp(v.view({1, 3})).view({3}) : exp(v);
    again = true;
    return r;
  };
  y = nn::checkpoint(fickle, leaf);
  CHECK(error_of<StateError>([&] { sum(y).backward(); }).find("saves other tensors") !=
        std::string::npos);
  int runs = 0;
  const auto shorter = [&](const Tensor& v) { return ++runs == 1 ? exp(exp(v)) : v + v; };
  y = nn::checkpoint(shorter, leaf);
  CHECK(error_of<StateError>([&] { sum(y).backward(); }).find("saves fewer tensors") !=
        std::string::npos);
  const auto failing = [&](const Tensor& v) {
    if (++runs > 10) fail<ValueError>("failing", {.what = "no more"});
    return exp(v);
  };
  runs = 9;
  y = nn::checkpoint(failing, leaf);
  CHECK_THROWS_AS(sum(y).backward(), ValueError);
  CHECK(exp(leaf).requires_grad());  // the thread's state is restored
  CHECK_THROWS_AS(nn::checkpoint(failing, leaf), ValueError);
}
