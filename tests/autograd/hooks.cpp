// Handles that remove hooks, and functions at the end of backward passes.
#include <mezzo.h>

#include "../support/catch.h"
#include "../support/throws.h"

using namespace mezzo;

namespace {

Tensor ones_leaf() { return ones({2}).requires_grad_(); }

double first_value(const Tensor& x) { return x.to_vector<double>()[0]; }

}  // namespace

TEST_CASE("a removed hook is not called again", "[hooks]") {
  const Tensor a = ones_leaf();
  int hooks = 0, late = 0;
  HookHandle hook = register_hook(a, [&](const Tensor& g) { return ++hooks, g * 2.0; });
  HookHandle after = register_post_accumulate_grad_hook(a, [&](const Tensor&) { ++late; });
  sum(a).backward();
  CHECK(first_value(a.grad()) == 2);
  hook.remove();
  after.remove();
  hook.remove();  // again: nothing happens
  sum(a).backward();
  CHECK(first_value(a.grad()) == 3);
  CHECK(hooks == 1);
  CHECK(late == 1);
}

TEST_CASE("hooks of results are removed, and a dropped handle keeps its hook", "[hooks]") {
  const Tensor a = ones_leaf(), y = a * 3.0;
  int removed = 0, kept = 0;
  HookHandle hook = register_hook(y, [&](const Tensor& g) { return ++removed, g; });
  register_hook(y, [&](const Tensor& g) { return ++kept, g; });
  HookHandle moved = std::move(hook);
  moved.remove();
  sum(y).backward();
  CHECK(removed == 0);
  CHECK(kept == 1);
}

TEST_CASE("a handle outlives its tensor", "[hooks]") {
  HookHandle hook;
  hook.remove();  // of no hook
  {
    const Tensor a = ones_leaf();
    hook = register_hook(a, [](const Tensor& g) { return g; });
  }
  CHECK_NOTHROW(hook.remove());
}

TEST_CASE("a hook may remove itself and others while it runs", "[hooks]") {
  const Tensor a = ones_leaf();
  int calls = 0;
  HookHandle self, other;
  self = register_hook(a, [&](const Tensor& g) {
    self.remove();
    other.remove();
    return ++calls, g;
  });
  other = register_hook(a, [&](const Tensor& g) { return calls += 10, g; });
  sum(a).backward();  // removal counts from the next pass
  sum(a).backward();
  CHECK(calls == 11);
}

TEST_CASE("functions at the end of a backward pass see all gradients", "[hooks]") {
  const Tensor a = ones_leaf(), b = ones_leaf();
  int calls = 0;
  register_hook(a, [&](const Tensor& g) {
    at_end_of_backward([&](const std::exception_ptr& failure) {
      CHECK(!failure);
      CHECK(b.grad().defined());
      CHECK(a.grad().defined());
      ++calls;
      at_end_of_backward([&](const std::exception_ptr&) { calls += 10; });
    });
    return g;
  });
  const Tensor y = b * 2.0;  // recorded first: its gradient comes last
  sum(a * y).backward();
  CHECK(calls == 11);
  sum(b).backward();
  CHECK(calls == 11);
  sum(a).backward();
  CHECK(calls == 22);
}

TEST_CASE("functions at the end of a backward pass are told of its exception", "[hooks]") {
  const Tensor a = ones_leaf();
  std::string told;
  bool fails = true;
  const auto tell = [&](const std::exception_ptr& failure) {
    try {
      if (failure) std::rethrow_exception(failure);
    } catch (const std::exception& e) {
      told += e.what();
    }
  };
  register_hook(a, [&](const Tensor& g) -> Tensor {
    at_end_of_backward(tell);
    if (fails) throw std::runtime_error("in a hook;");
    return g;
  });
  CHECK_THROWS_WITH_AS_TEXT(sum(a).backward(), std::runtime_error, "in a hook");
  CHECK(told == "in a hook;");
  fails = false;
  sum(a).backward();
  CHECK(told == "in a hook;");  // and the function ran with null
}

TEST_CASE("an exception at the end of a backward pass leaves backward(); the gradients stay",
          "[hooks]") {
  const Tensor a = ones_leaf();
  int calls = 0;
  HookHandle hook = register_hook(a, [&](const Tensor& g) {
    at_end_of_backward([](const std::exception_ptr&) { throw std::runtime_error("first"); });
    at_end_of_backward([&](const std::exception_ptr& failure) { calls += failure ? 1 : 100; });
    at_end_of_backward([](const std::exception_ptr&) { throw std::runtime_error("second"); });
    return g;
  });
  CHECK_THROWS_WITH_AS_TEXT(sum(a).backward(), std::runtime_error, "first");
  CHECK(calls == 1);
  CHECK(first_value(a.grad()) == 1);
  hook.remove();
  sum(a).backward();
  CHECK(calls == 1);
}

TEST_CASE("the end of a backward pass inside another one is that of the outer pass", "[hooks]") {
  const Tensor a = ones_leaf(), b = ones_leaf();
  std::vector<int> order;
  register_hook(a, [&](const Tensor& g) {
    const GradMode recording(true);
    sum(b).backward();
    order.push_back(1);
    return g;
  });
  register_hook(b, [&](const Tensor& g) {
    at_end_of_backward([&](const std::exception_ptr&) { order.push_back(2); });
    return g;
  });
  sum(a).backward();
  CHECK(order == std::vector{1, 2});
}

TEST_CASE("at_end_of_backward() needs a backward pass on its thread", "[hooks]") {
  const auto end = [](const std::exception_ptr&) {};
  CHECK_THROWS_WITH_AS_TEXT(at_end_of_backward(end), StateError, "no backward pass runs");
  const Tensor a = ones_leaf();
  HookHandle hook = register_hook(a, [&](const Tensor& g) { return at_end_of_backward(end), g; });
  CHECK_THROWS_AS(grad(sum(a), a), StateError);
}
