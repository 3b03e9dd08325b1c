// The rules of automatic casts one by one. tests/ops/autocast.cpp checks every op.
#include <memory>
#include <thread>

#include "../support/catch.h"
#include "../support/throws.h"
#include "fingerprint.h"
#include "nets.h"

using namespace nets;
using amp::autocast;

namespace {

Tensor half(const Shape& shape) { return wave(shape, 0, f16); }

Precision tag(std::string_view op) {
  const OpInfo* info = find_op(op);
  INFO(op);
  REQUIRE(info);
  return info->traits.precision;
}

/** Takes a matrix product of its input with itself. */
struct Square : nn::Model<Square> {
  Tensor forward(const Tensor& x) const { return matmul(x, x); }
};

}  // namespace

// ---- which state applies ------------------------------------------------------------------------

TEST_CASE("an optimizer's step is the same inside a region", "[casting]") {
  const auto train = [](bool inside) {
    Net net;
    optim::Adam optimizer(net.parameters(), {.lr = 0.01});
    const auto session = amp::initialize(net, optimizer, quiet("O2"));
    for (int i = 0; i < 3; ++i) {
      optimizer.zero_grad();
      amp::scale_loss(loss_of(net), optimizer, [](const Tensor& loss) { loss.backward(); });
      std::optional<autocast> region;
      if (inside) region.emplace();
      CHECK(casts([&] { optimizer.step(); }) == 0);
    }
    return fingerprint::of(optimizer);
  };
  CHECK(train(true) == train(false));
}

TEST_CASE("outside of models the most recently created live session decides", "[casting]") {
  const Tensor x = here(ones({2, 2}));
  auto older = amp::initialize(amp::ModelList{}, quiet("O1"));
  {
    const auto newer = amp::initialize(amp::ModelList{}, quiet("O4"));
    const auto converts =
        amp::initialize(amp::ModelList{}, quiet("O2"));  // has no op casts: does not count
    CHECK(matmul(x, x).dtype() == bf16);
  }
  CHECK(matmul(x, x).dtype() == f16);
  older.close();
  CHECK(matmul(x, x).dtype() == f32);
}

TEST_CASE("a model's session must be active on the thread", "[casting]") {
  const Square model;
  auto session = amp::initialize(model, quiet("O1"));
  DType elsewhere = f16, opted_in = f32;
  std::thread([&] {
    elsewhere = model(here(ones({2, 2}))).dtype();
    const auto on = session.activate();
    opted_in = model(here(ones({2, 2}))).dtype();
  }).join();
  CHECK(elsewhere == f32);
  CHECK(opted_in == f16);
}

TEST_CASE("closing a session ends its casts on every thread", "[casting]") {
  auto session = amp::initialize(amp::ModelList{}, quiet("O1"));
  DType before = f32, after = f16;
  std::atomic<int> turn{0};
  std::thread other([&] {
    const auto on = session.activate();
    before = matmul(here(ones({2, 2})), here(ones({2, 2}))).dtype();
    turn = 1;
    while (turn != 2) std::this_thread::yield();
    after = matmul(here(ones({2, 2})), here(ones({2, 2}))).dtype();
  });
  while (turn != 1) std::this_thread::yield();
  session.close();
  turn = 2;
  other.join();
  CHECK(before == f16);
  CHECK(after == f32);
}

// ---- tags and promotion -------------------------------------------------------------------------

TEST_CASE("a cast to a tensor's own dtype returns the tensor itself", "[casting]") {
  const Tensor x = half({3}).requires_grad_();
  CHECK(x.to(f16).is_same(x));
  const autocast on;
  CHECK(casts([&] { matmul(half({2, 2}), half({2, 2})); }) == 0);
}

TEST_CASE("mixing f64 and f32 is an error with the reason", "[casting]") {
  const autocast on;
  CHECK_THROWS_WITH_AS_TEXT(matmul(here(ones({2, 2}, {.dtype = f64})), here(ones({2, 2}))),
                            DtypeError, "f64 is never cast automatically");
  CHECK_THROWS_WITH_AS_TEXT(mm(here(ones({2, 2}, {.dtype = f64})), here(ones({2, 2}))), DtypeError,
                            "mm: dtypes differ; got f64");
}

TEST_CASE("promotion is the same inside and outside of regions", "[casting]") {
  for (const bool inside : {false, true}) {
    std::optional<autocast> region;
    if (inside) region.emplace();
    const Tensor h = half({3}), b = half({3}).to(bf16), s = here(ones({3})),
                 d = here(ones({3}, {.dtype = f64}));
    CHECK((h + h).dtype() == f16);
    CHECK((b * b).dtype() == bf16);
    CHECK((h + b).dtype() == f32);
    CHECK((h + s).dtype() == f32);
    CHECK((b - d).dtype() == f64);
    CHECK(cat({h, s}).dtype() == f32);
    CHECK(cat({h, b}).dtype() == f32);
    CHECK(stack({h, d}).dtype() == f64);
    CHECK((h * 2.5).dtype() == f16);
    CHECK((h + here(tensor(1.0))).dtype() == f16);  // 0-dim
    CHECK((h + here(tensor(1.0, {.dtype = f64}))).dtype() == f16);
  }
}

TEST_CASE("the tags of ops that other frameworks treat differently", "[casting]") {
  for (const char* op : {"gelu", "var", "std"}) CHECK(tag(op) == Precision::match);
  for (const char* op : {"grid_sample", "sub", "tensordot", "index_put", "scatter_add"})
    CHECK(tag(op) == Precision::promote);
  for (const char* op : {"log1p", "cdist", "logsumexp", "rms_norm", "local_response_norm",
                         "softmax", "log_softmax", "sum", "prod", "cumsum", "cumprod", "norm"})
    CHECK(tag(op) == Precision::f32);
  CHECK(tag("binary_cross_entropy") == Precision::banned);
}

TEST_CASE("ops inside a composite are not cast", "[casting]") {
  const Tensor a = wave({30, 4}, 0), b = wave({30, 4}, 1);
  const autocast on;
  // The matrix products inside stay in f32: cdist has the tag f32, tensordot the tag promote.
  CHECK(casts([&] { CHECK(cdist(a, b).dtype() == f32); }) == 0);
  CHECK(casts([&] { CHECK(tensordot(a, b.t(), 1).dtype() == f32); }) == 0);
  CHECK(casts([&] { CHECK(cdist(a.to(f16), b).dtype() == f32); }) == 1);
}

// ---- in place -----------------------------------------------------------------------------------

TEST_CASE("compound assignment writes into its left side, in its dtype", "[casting]") {
  for (const bool inside : {false, true}) {
    std::optional<autocast> region;
    if (inside) region.emplace();
    const Tensor h = here(ones({3}, {.dtype = f16})), s = here(full({3}, 0.5));
    const void* memory = h.raw_data();
    h += s;
    h -= s * 3;
    h *= s;
    h /= s;
    CHECK(h.dtype() == f16);
    CHECK(h.raw_data() == memory);
    CHECK(values(h) == std::vector<double>{0, 0, 0});
  }
}

TEST_CASE("in-place ops with tag low cast the other operands to self's dtype", "[casting]") {
  const Tensor a = wave({2, 2}, 0), b = wave({2, 2}, 1);
  const autocast on;
  const Tensor single = here(zeros({2, 2})), low = here(zeros({2, 2}, {.dtype = f16}));
  addmm_(single, a.to(f16), b.to(f16));
  CHECK(single.dtype() == f32);
  addmm_(low, a, b);
  CHECK(low.dtype() == f16);
  const amp::disable_casts off;
  CHECK(values(single) == values(addmm(here(zeros({2, 2})), a.to(f16).to(f32), b.to(f16).to(f32))));
  CHECK(values(low) == values(addmm(here(zeros({2, 2}, {.dtype = f16})), a.to(f16), b.to(f16))));
}

TEST_CASE("in-place ops with tag f32 require f32 under casts", "[casting]") {
  struct Act : nn::Model<Act> {
    Tensor forward(const Tensor& x) const {
      exp_(x);
      return x;
    }
  };
  const Act act;
  const Tensor h = here(zeros({16}, {.dtype = f16}));
  CHECK_NOTHROW(exp_(h.clone()));  // casts are off
  {
    const autocast on;
    CHECK_THROWS_WITH_AS_TEXT(exp_(h), DtypeError,
                              str("exp_: in-place form of a full-precision op; got f16[16]@",
                                  test_device(), ", expected f32; use exp(x)"));
    CHECK_NOTHROW(exp_(here(zeros({2}))));
    CHECK(values(h) == std::vector<double>(16, 0));
  }
  struct Outer : nn::Model<Outer> {
    Act inner = add("act", Act());
    Tensor forward(const Tensor& x) const { return inner(x); }
  };
  const autocast on;
  CHECK_THROWS_WITH_AS_TEXT(Outer()(h), DtypeError, "exp_(act): in-place form");
}

TEST_CASE("integers refuse floating-point results in place", "[casting]") {
  const Tensor n = here(tensor({1, 2}, {2}, {.dtype = i64}));
  for (const bool inside : {false, true}) {
    std::optional<autocast> region;
    if (inside) region.emplace();
    CHECK_THROWS_AS(add_(n, here(ones({2}))), DtypeError);
    CHECK_THROWS_AS(mul_(n, half({2})), DtypeError);
    CHECK_THROWS_AS(exp_(n), DtypeError);
    CHECK(values(n) == std::vector<double>{1, 2});
  }
}

// ---- the cache ----------------------------------------------------------------------------------

TEST_CASE("frozen parameters are cached too, and so is each operand of a list", "[casting]") {
  const nn::Linear layer{4, 4, {.bias = false}};
  layer.to(test_device());
  layer.requires_grad_(false);
  const Tensor x = wave({2, 4}, 0), w = layer.parameters()[0];
  const autocast on;
  CHECK(casts([&] { layer(x); }) == 2);
  CHECK(casts([&] { layer(x); }) == 1);
  CHECK(casts([&] { einsum("ij,kj->ik", {x, w}); }) == 1);
}

TEST_CASE("uses of one cached weight share a cast, and its gradient is summed in f16",
          "[casting]") {
  // Two gradients of 2048 and 1: in f16 their sum is 2048, in f32 2049.
  const Tensor w = here(ones({1, 1})).requires_grad_();
  const auto gradient = [&](bool cached) {
    w.set_grad({});
    const autocast on({.cache_enabled = cached});
    const Tensor large = here(full({1, 1}, 2048, {.dtype = f16})),
                 small = here(ones({1, 1}, {.dtype = f16}));
    sum(matmul(large, w) + matmul(small, w)).backward();
    return w.grad().item<double>();
  };
  CHECK(gradient(true) == 2048);
  CHECK(gradient(false) == 2049);
}

TEST_CASE("a session's cache is cleared at the end of every scope, also after an exception",
          "[casting]") {
  Net net;
  optim::SGD optimizer(net.parameters());
  auto session = amp::initialize(net, optimizer, quiet("O1"));
  const auto entries = [&] { return session.cast_cache().report().entries; };
  const auto fill = [&] {
    const Tensor loss = loss_of(net);
    CHECK(entries() == 4);
    return loss;
  };
  amp::scale_loss(fill(), optimizer, {.delay_unscale = true},
                  [](const Tensor& loss) { loss.backward(); });
  CHECK(entries() == 0);
  CHECK_THROWS(amp::scale_loss(fill(), optimizer, [](const Tensor&) { throw ValueError("no"); }));
  CHECK(entries() == 0);
  fill();
  session.cast_cache().clear();
  CHECK(entries() == 0);
  fill();
  net.eval();
  CHECK(casts([&] { net(input()); }) == 1);  // the input; the weights are cached
}

TEST_CASE("weights written by a step or a load are cast again without clearing the cache",
          "[casting]") {
  const nn::Linear layer{2, 2, {.bias = false}};
  layer.to(test_device());
  optim::SGD optimizer(layer.parameters(), {.lr = 1});
  const Tensor x = here(eye(2));
  const autocast on;
  const auto same = [&] {
    return values(layer(x)) == values(layer.parameters()[0].detach().t().to(f16));
  };
  CHECK(same());
  layer.parameters()[0].set_grad(here(ones({2, 2})));
  optimizer.step();
  CHECK(same());
  const nn::Linear other{2, 2, {.bias = false}};
  layer.load_state_dict(other.state_dict());
  CHECK(same());
}

// ---- guards, banned ops -------------------------------------------------------------------------

TEST_CASE("guards that close in the wrong order are reported", "[casting]") {
  LogCapture log;
  auto outer = std::make_unique<autocast>();
  auto inner = std::make_unique<autocast>(amp::AutocastOptions{.dtype = bf16});
  outer.reset();
  REQUIRE(log.lines.size() == 1);
  CHECK(log.lines[0].find("guards must close in reverse order") != std::string::npos);
  CHECK(autocast::depth() == 1);  // the guard that is still open
  CHECK(autocast::dtype() == bf16);
  inner.reset();
  CHECK(log.lines.size() == 1);
  CHECK(autocast::depth() == 0);
  CHECK_FALSE(autocast::is_enabled());
}

TEST_CASE("a session refuses binary_cross_entropy on 16-bit inputs only, a guard on any",
          "[casting]") {
  const Tensor p = here(full({3}, 0.25)), t = here(ones({3}));
  {
    const auto session = amp::initialize(amp::ModelList{}, quiet("O1"));
    CHECK(binary_cross_entropy(p, t).dtype() == f32);
    CHECK_THROWS_WITH_AS_TEXT(binary_cross_entropy(p.to(f16), t), DtypeError,
                              str("binary_cross_entropy: gradient may not fit f16; got f16[3]@",
                                  test_device(), " and f32[3]@", test_device(),
                                  ", expected casts off; use binary_cross_entropy_with_logits"));
    CHECK_THROWS_AS(binary_cross_entropy(p, t.to(bf16)), DtypeError);
    const amp::disable_casts off;
    CHECK_NOTHROW(binary_cross_entropy(p, t));
  }
  const autocast on;
  CHECK_THROWS_AS(binary_cross_entropy(p, t), DtypeError);
  CHECK_THROWS_AS(binary_cross_entropy(p.to(f64), t.to(f64)), DtypeError);
}
