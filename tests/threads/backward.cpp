// Backward passes of several threads into the same leaves.
#include <mezzo.h>

#include <stdexcept>

#include "../support/catch.h"
#include "on_threads.h"

using namespace mezzo;
using threads::on_threads;

namespace {

std::vector<double> values(const Tensor& x) { return x.to_vector<double>(); }

Tensor leaf(const std::vector<double>& v) { return tensor(v, {.requires_grad = true}); }

/** Runs one backward pass that adds 1 to each element of the leaf's gradient. */
void add_one(const Tensor& w) { sum(w * 1.0).backward(); }

}  // namespace

// Large leaves: most of a pass is the accumulation, so that missing locks cause lost updates.
TEST_CASE("backward passes of several threads into one leaf lose no gradient", "[threads]") {
  constexpr int kThreads = 4, kPasses = 100;
  const Tensor w = ones({1 << 18}, {.requires_grad = true}), v = leaf({4});
  on_threads(kThreads, [&](int t) {
    for (int i = 0; i < kPasses; ++i) (sum(w) + v * static_cast<double>(t)).backward();
  });
  CHECK(min(w.grad()).item<double>() == kThreads * kPasses);
  CHECK(max(w.grad()).item<double>() == kThreads * kPasses);
  CHECK(values(v.grad()) == std::vector<double>{(0 + 1 + 2 + 3) * kPasses});
}

TEST_CASE("a fresh leaf may get its first gradient from several threads at once", "[threads]") {
  for (int round = 0; round < 100; ++round) {
    const Tensor w = ones({1 << 16}, {.requires_grad = true});
    on_threads(2, [&](int) { sum(w).backward(); });
    REQUIRE(min(w.grad()).item<double>() == 2);
  }
}

TEST_CASE("a gradient may be read and replaced during other threads' backward passes",
          "[threads]") {
  const Tensor w = leaf({1, 2, 3});
  on_threads(4, [&](int t) {
    for (int i = 0; i < 4000; ++i) {
      if (t < 2)
        add_one(w);
      else if (t == 2)
        w.set_grad(i % 2 == 0 ? Tensor{} : zeros({3}));
      else if (const Tensor g = w.grad(); g.defined() && g.numel() != 3)
        throw std::runtime_error("a gradient of another shape");
    }
  });
  w.set_grad({});
  add_one(w);
  CHECK(values(w.grad()) == std::vector<double>{1, 1, 1});
}

TEST_CASE("post-accumulate hooks have exclusive access to the leaf's gradient", "[threads]") {
  const Tensor w = leaf({1, 2});
  int calls = 0;
  double largest = 0;
  register_post_accumulate_grad_hook(w, [&](const Tensor& l) {
    ++calls;
    largest = max(l.grad()).item<double>();
    l.grad().fill_(0);
  });
  on_threads(4, [&](int) {
    for (int i = 0; i < 2000; ++i) add_one(w);
  });
  CHECK(calls == 8000);
  CHECK(largest == 1);
  CHECK(values(w.grad()) == std::vector<double>{0, 0});
}

TEST_CASE("post-accumulate hooks may run backward into the same leaf", "[threads]") {
  const Tensor w = leaf({1, 2});
  int calls = 0;
  register_post_accumulate_grad_hook(w, [&](const Tensor& l) {
    const GradMode on(true);
    if (++calls == 1) add_one(l);
  });
  add_one(w);
  CHECK(calls == 2);
  CHECK(values(w.grad()) == std::vector<double>{2, 2});
}

TEST_CASE("several threads may run backward through one retained graph", "[threads]") {
  const Tensor w = leaf({1, 2, 3, 4}), x = tensor({1., 1, 1, 1}).view({2, 2});
  Tensor loss;
  {
    const amp::autocast on;  // nodes before a conversion get its output dtype from the engine
    loss = sum(matmul(relu(matmul(w.view({2, 2}), x)), x).to(f32));
  }
  loss.backward({}, true);
  const std::vector<double> once = values(w.grad());
  w.set_grad({});
  constexpr int kThreads = 3, kPasses = 100;
  on_threads(kThreads, [&](int) {
    for (int i = 0; i < kPasses; ++i) loss.backward({}, true);
  });
  std::vector<double> expected;
  for (const double g : once) expected.push_back(kThreads * kPasses * g);
  CHECK(values(w.grad()) == expected);
}

TEST_CASE("grad() on several threads does not write to a shared leaf", "[threads]") {
  const Tensor w = leaf({1, 2, 3});
  std::vector<std::vector<double>> found(4);
  on_threads(4, [&](int t) {
    for (int i = 0; i < 100; ++i)
      found[static_cast<std::size_t>(t)] = values(grad(sum(w * w * static_cast<double>(t)), w));
  });
  for (int t = 0; t < 4; ++t)
    CHECK(found[static_cast<std::size_t>(t)] == std::vector<double>{2.0 * t, 4.0 * t, 6.0 * t});
  CHECK_FALSE(w.grad().defined());
}
