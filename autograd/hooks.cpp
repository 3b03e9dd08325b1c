#include "hooks.h"

#include <utility>

#include "../tensor/text/text.h"

namespace mezzo {

namespace {

thread_local BackwardObserver* innermost_observer = nullptr;

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

void register_hook(const Tensor& x, GradHook hook) {
  if (!x.requires_grad())
    fail<StateError>("register_hook", {.what = "the tensor requires no gradient",
                                       .got = str(x),
                                       .hint = "call requires_grad_() first"});
  GradState& state = grad_state(x);
  if (state.grad_fn)
    state.grad_fn->add_hook(state.output, checked(std::move(hook)));
  else
    state.hooks.push_back(checked(std::move(hook)));
}

void register_post_accumulate_grad_hook(const Tensor& leaf,
                                        std::function<void(const Tensor&)> hook) {
  if (!leaf.requires_grad() || !leaf.is_leaf())
    fail<StateError>(
        "register_post_accumulate_grad_hook",
        {.what = "only leaves that require a gradient accumulate one", .got = str(leaf)});
  grad_state(leaf).accumulated_hooks.push_back(std::move(hook));
}

BackwardObserver::BackwardObserver() : outer_(std::exchange(innermost_observer, this)) {}

BackwardObserver::~BackwardObserver() {
  // Observers do not depend on each other, so any order of destruction is right.
  BackwardObserver** link = &innermost_observer;
  while (*link && *link != this) link = &(*link)->outer_;
  if (*link) *link = outer_;
}

void notify_backward(const Tensor& output) {
  for (BackwardObserver* observer = innermost_observer; observer; observer = observer->outer_)
    observer->begin_backward(output);
}

}  // namespace mezzo
