// Losses of cross_entropy that are computed when they are read, or by their gradient.
#include <mezzo.h>

#include <cmath>

#include "../../tensor/core/registry.h"
#include "../../tensor/memory/allocator.h"
#include "../../tensor/ops/loss/cross_entropy.h"
#include "../support/catch.h"
#include "../support/throws.h"
#include "cost.h"
#include "training.h"

using namespace captured;

namespace {

/** A loss with the gradient of the scores, and the launches of both. */
struct LossAndGradient {
  std::vector<double> loss, gradient;
  std::int64_t launches = 0;
};

/** Computes a loss and its gradient, reading the loss before or after the backward pass. */
LossAndGradient loss_and_gradient(const Tensor& scores, const Tensor& target,
                                  const CrossEntropyOptions& options, bool reads_first) {
  const Tensor x = scores.detach().requires_grad_();
  LossAndGradient out;
  Tensor loss;
  out.launches += cost_of([&] { loss = cross_entropy(x, target, options); }).launches;
  if (reads_first) out.launches += cost_of([&] { (void)loss.to_vector<double>(); }).launches;
  out.launches += cost_of([&] { loss.backward(); }).launches;
  out.loss = loss.to_vector<double>();
  out.gradient = x.grad().to_vector<double>();
  return out;
}

Tensor classes_for(const Shape& shape, std::int64_t classes, DType dtype) {
  return randint(0, classes, shape).to(dtype).to(kDevice);
}

}  // namespace

TEST_CASE("a loss has the same bits whether it is read before or after its backward pass",
          "[gpu][counters]") {
  manual_seed(9);
  struct Case {
    Shape scores, target;
    bool is_one_launch;
  };
  for (const Case& c :
       {Case{{8, 10}, {8}, true}, Case{{5}, {}, true}, Case{{2, 8, 3}, {2, 3}, true},
        Case{{2000, 10}, {2000}, true}, Case{{8, 64}, {8}, true}, Case{{3000, 10}, {3000}, false},
        Case{{500, 64}, {500}, false}, Case{{1, 40000}, {1}, false}, Case{{4, 20000}, {4}, false}})
    for (const DType dtype : {f32, f16, bf16, f64})
      for (const CrossEntropyOptions& options :
           {CrossEntropyOptions{}, CrossEntropyOptions{.reduction = Reduction::sum},
            CrossEntropyOptions{.ignore_index = 2, .label_smoothing = 0.1}}) {
        INFO(str(c.scores) << " " << name(dtype) << " smoothing " << options.label_smoothing);
        const int dim = c.scores.rank() == 1 ? 0 : 1;
        const Tensor x = randn(c.scores).to(dtype).to(kDevice),
                     target = classes_for(c.target, c.scores[dim], dtype == f16 ? i32 : i64);
        (void)loss_and_gradient(x, target, options, false);  // caches the gradient 1
        const LossAndGradient late = loss_and_gradient(x, target, options, false),
                              read = loss_and_gradient(x, target, options, true);
        CHECK(same(late.loss, read.loss));
        CHECK(same(late.gradient, read.gradient));
        CHECK(same(late.loss, cross_entropy(x, target, options).to_vector<double>()));
        if (c.is_one_launch) {
          CHECK(late.launches == 1);
          CHECK(read.launches == 2);
        }
        if (dtype != f64) continue;
        const double host = cross_entropy(x.to(cpu), target.to(cpu), options).item<double>();
        CHECK((std::isnan(host) ? std::isnan(late.loss[0]) : late.loss[0] == Approx(host)));
      }
}

TEST_CASE("a loss that is computed late follows its graph", "[gpu]") {
  manual_seed(10);
  const Tensor x = randn({6, 5}, {.device = kDevice}).requires_grad_(),
               target = classes_for({6}, 5, i64);
  const double expected = cross_entropy(x.detach(), target).item<double>();
  const Tensor once = grad({cross_entropy(x, target)}, {x})[0];
  SECTION("without a backward pass") { CHECK(cross_entropy(x, target).item<double>() == expected); }
  SECTION("two backward passes through one graph") {
    const Tensor loss = cross_entropy(x, target);
    loss.backward({}, true);
    loss.backward();
    CHECK(same(x.grad().to_vector<double>(), (once * 2).to_vector<double>()));
    CHECK(loss.item<double>() == expected);
  }
  SECTION("two losses of the same operands") {
    const Tensor loss = cross_entropy(x, target),
                 smooth = cross_entropy(x, target, {.label_smoothing = 0.5});
    smooth.backward();
    loss.backward();
    CHECK(loss.item<double>() == expected);
    CHECK(smooth.item<double>() ==
          cross_entropy(x.detach(), target, {.label_smoothing = 0.5}).item<double>());
  }
  SECTION("a function of the loss, which is dropped") {
    Tensor loss = cross_entropy(x, target), twice = loss * 2;
    loss = {};
    twice.backward();
    CHECK(twice.item<double>() == 2 * expected);
    CHECK(same(x.grad().to_vector<double>(), (once * 2).to_vector<double>()));
  }
  SECTION("a gradient that has a gradient") {
    const Tensor loss = cross_entropy(x, target, {.ignore_index = 1}),
                 g = grad({loss}, {x}, {.create_graph = true})[0];
    const Tensor y = x.detach().to(cpu).requires_grad_();
    const Tensor there = cross_entropy(y, target.to(cpu), {.ignore_index = 1}),
                 g_there = grad({there}, {y}, {.create_graph = true})[0];
    const Tensor second = grad({sum(g * g)}, {x})[0].to(cpu),
                 expected_second = grad({sum(g_there * g_there)}, {y})[0];
    CHECK(amax(abs(second - expected_second)).item<double>() < 1e-6);
    CHECK(loss.item<double>() == Approx(there.item<double>()));
  }
  SECTION("changed in place") {
    const Tensor loss = cross_entropy(x, target);
    mul_(loss, 0.5);
    CHECK(loss.item<double>() == 0.5 * expected);
    loss.backward();
    CHECK(same(x.grad().to_vector<double>(), (once * 0.5).to_vector<double>()));
  }
  SECTION("in another stream") {
    const Tensor loss = cross_entropy(x, target);
    {
      const gpu::Stream side(kDevice);
      const gpu::StreamScope scope(side);
      loss.backward();
      side.synchronize();
    }
    CHECK(same(x.grad().to_vector<double>(), once.to_vector<double>()));
    CHECK(loss.item<double>() == expected);
  }
}

TEST_CASE("a loss that is read after its operands have changed is an error", "[gpu]") {
  manual_seed(11);
  const Tensor x = randn({6, 5}, {.device = kDevice}).requires_grad_(),
               target = classes_for({6}, 5, i64);
  const char* const text =
      "cross_entropy: scores or targets were modified in place, and their loss is read afterwards";
  for (const bool of_scores : {true, false}) {
    const auto change = [&] { (of_scores ? x.detach() : target).fill_(1); };
    const Tensor unread = cross_entropy(x, target), read = cross_entropy(x, target),
                 passed = cross_entropy(x, target);
    const double value = read.item<double>();
    passed.backward();
    change();
    CHECK_THROWS_WITH_AS_TEXT(unread.item<double>(), StateError, text);
    CHECK_THROWS_AS(unread.backward(), StateError);
    CHECK(read.item<double>() == value);
    CHECK(passed.item<double>() == value);
  }
}

TEST_CASE("a loss whose backward pass ran out of memory can still be read", "[gpu][memory]") {
  manual_seed(12);
  const Tensor x = randn({6, 5}, {.device = kDevice}).requires_grad_(),
               target = classes_for({6}, 5, i64);
  const double expected = cross_entropy(x.detach(), target).item<double>();
  Allocator& allocator = allocator_for(kDevice);
  int failed = 0;
  for (bool succeeds = false; !succeeds && failed < 20;) {
    const Tensor loss = cross_entropy(x, target);
    allocator.fail_nth(failed + 1);
    try {
      (void)grad({loss}, {x}, {.retain_graph = true});
      succeeds = true;
    } catch (const OutOfMemory&) {
      ++failed;
    }
    allocator.fail_nth(0);
    CHECK(loss.item<double>() == expected);
  }
  CHECK(failed >= 3);
  CHECK(failed < 20);
}

TEST_CASE("a captured step writes a loss of each replay, with and without a backward pass",
          "[gpu][graph]") {
  manual_seed(13);
  for (const bool goes_back : {true, false}) {
    const Tensor w = randn({6, 5}, {.device = kDevice}).requires_grad_();
    gpu::CapturedStep step(
        [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
          w.set_grad({});
          const Tensor loss = cross_entropy(matmul(in[0], w), in[1]);
          if (!goes_back) return {loss};
          loss.backward();
          return {loss, w.grad()};
        },
        {kDevice});
    for (int i = 0; i < 5; ++i) {
      const Tensor x = randn({8, 6}, {.device = kDevice}), target = classes_for({8}, 5, i64);
      const std::vector<Tensor> out = step({x, target});
      const Tensor again = w.detach().clone().requires_grad_();
      const Tensor loss = cross_entropy(matmul(x, again), target);
      CHECK(out[0].item<double>() == loss.item<double>());
      if (!goes_back) continue;
      loss.backward();
      CHECK(same(out[1].to_vector<double>(), again.grad().to_vector<double>()));
    }
  }
  // a loss from before the capture is not computed in it
  const Tensor x = randn({8, 5}, {.device = kDevice}).requires_grad_(),
               target = classes_for({8}, 5, i64), early = cross_entropy(x, target);
  const auto capture = [&](auto&& body) {
    gpu::Graph graph;
    graph.capture(kDevice, body);
  };
  CHECK_THROWS_AS(capture([&] { (void)(early * 2); }), StateError);
  CHECK(early.item<double>() == cross_entropy(x.detach(), target).item<double>());
}

TEST_CASE("the kernels of late losses on the CPU are those of other losses", "[gpu]") {
  manual_seed(14);
  const Tensor x = randn({6, 5}), target = randint(0, 5, {6}), y = x.clone().requires_grad_();
  const Tensor expected = cross_entropy(y, target);
  expected.backward();
  const OpInfo &forward = *find_op("late_cross_entropy"),
               &backward = *find_op("cross_entropy_backward");
  Tensor loss = zeros({}), written = zeros({}), gx = zeros({6, 5});
  const op::LateCrossEntropy::Attrs attrs;
  const std::vector<Tensor> operands{x, target};
  forward.kernel[0](forward, operands, {&loss, 1}, &attrs);
  CHECK(loss.item<double>() == expected.item<double>());
  const std::vector<Tensor> in{ones({}), x, target, {}, {}, {}, written};
  const op::CrossEntropyBackward::Attrs of_gradient;
  backward.kernel[0](backward, in, {&gx, 1}, &of_gradient);
  CHECK(written.item<double>() == expected.item<double>());
  CHECK(same(gx.to_vector<double>(), y.grad().to_vector<double>()));
}
