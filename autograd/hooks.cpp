#include "hooks.h"

#include <atomic>
#include <utility>

#include "../tensor/text/text.h"

namespace mezzo {

namespace {

thread_local BackwardObserver* innermost_observer = nullptr;
thread_local int backward_depth = 0;
thread_local std::vector<BackwardEnd> backward_ends;
std::atomic<std::uint64_t> passes{0};

/** Returns the hook with a check that a replaced gradient has the shape, dtype and device of the
 *  original. */
GradHook checked(GradHook hook) {
  return [hook = std::move(hook)](const Tensor& g) {
    Tensor replaced = hook(g);
    if (replaced.defined() && (!(replaced.shape() == g.shape()) || replaced.dtype() != g.dtype()))
      fail<ShapeError>("hook", {.what = "the hook returned a gradient of another shape or dtype",
                                .got = str(replaced),
                                .expected = str(g)});
    if (replaced.defined() && !(replaced.device() == g.device()))
      fail<DeviceError>("hook", {.what = "the hook returned a gradient on another device",
                                 .got = str(replaced),
                                 .expected = str(g)});
    return replaced;
  };
}

}  // namespace

HookHandle register_hook(const Tensor& x, GradHook hook) {
  if (!x.requires_grad())
    fail<StateError>("register_hook", {.what = "the tensor requires no gradient",
                                       .got = str(x),
                                       .hint = "call requires_grad_() first"});
  GradState& state = grad_state(x);
  if (state.grad_fn) return state.grad_fn->add_hook(state.output, checked(std::move(hook)));
  return state.hooks.add(checked(std::move(hook)));
}

HookHandle register_post_accumulate_grad_hook(const Tensor& leaf, LeafHook hook) {
  if (!leaf.requires_grad() || !leaf.is_leaf())
    fail<StateError>(
        "register_post_accumulate_grad_hook",
        {.what = "only leaves that require a gradient accumulate one", .got = str(leaf)});
  return grad_state(leaf).accumulated_hooks.add(std::move(hook));
}

void run_post_accumulate_grad_hooks(const Tensor& leaf) {
  if (const GradState* state = find_grad_state(leaf))
    state->accumulated_hooks.for_each([&](const LeafHook& hook) { hook(leaf); });
}

void at_end_of_backward(BackwardEnd end) {
  if (backward_depth == 0)
    fail<StateError>("at_end_of_backward",
                     {.what = "no backward pass runs on this thread", .hint = "call it in a hook"});
  backward_ends.push_back(std::move(end));
}

BackwardScope::BackwardScope() { ++backward_depth; }
BackwardScope::~BackwardScope() { --backward_depth; }

void BackwardScope::finish(const std::exception_ptr& failure) {
  std::exception_ptr first = failure;
  // A function may add another one.
  for (std::size_t i = 0; backward_depth == 1 && i < backward_ends.size(); ++i) {
    const BackwardEnd end = std::move(backward_ends[i]);
    try {
      end(first);
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (backward_depth == 1) backward_ends.clear();
  if (first) std::rethrow_exception(first);
}

BackwardObserver::BackwardObserver() : outer_(std::exchange(innermost_observer, this)) {}

BackwardObserver::~BackwardObserver() {
  // Observers do not depend on each other, so any order of destruction is right.
  BackwardObserver** link = &innermost_observer;
  while (*link && *link != this) link = &(*link)->outer_;
  if (*link) *link = outer_;
}

void notify_backward(const Tensor& output) {
  passes.fetch_add(1, std::memory_order_relaxed);
  for (BackwardObserver* observer = innermost_observer; observer; observer = observer->outer_)
    observer->begin_backward(output);
}

std::uint64_t backward_passes() noexcept { return passes.load(std::memory_order_relaxed); }

}  // namespace mezzo
