// The methods of Tensor that concern derivatives.
#include "../tensor/core/dispatch.h"
#include "../tensor/text/text.h"
#include "engine.h"
#include "leaf_lock.h"

namespace mezzo {

namespace {

void make_lock(GradState& state) {
  if (!state.lock) state.lock.reset(new LeafLock);
}

}  // namespace

const Tensor& Tensor::requires_grad_(bool on) const {
  if (!is_leaf() && !on)
    fail<StateError>("requires_grad_", {.what = "only leaves can be frozen",
                                        .got = str(*this),
                                        .expected = "a tensor that no operation made",
                                        .hint = "use x.detach()"});
  if (on && !is_floating(dtype()))
    fail<DtypeError>("requires_grad_", {.what = "only floating tensors have gradients",
                                        .got = str(*this),
                                        .expected = "a floating dtype",
                                        .hint = "integers make i64: write tensor({1., 2}), "
                                                "or give {.dtype = f32}"});
  // The lock is made here, on one thread, before several threads record ops and go backward.
  if (on && is_leaf()) make_lock(grad_state(*this));
  self().requires_grad = on;
  return *this;
}

bool Tensor::is_leaf() const {
  const GradState* state = find_grad_state(*this);
  return !state || !state->grad_fn;
}

Tensor Tensor::grad() const {
  const GradState* state = find_grad_state(*this);
  if (!state) return {};
  const auto lock = locked(*state);
  return state->retained ? *state->retained : state->grad;
}

void Tensor::set_grad(const Tensor& grad) const {
  if (grad.defined() && !(grad.shape() == shape()))
    fail<ShapeError>("set_grad", {.what = "a gradient has the shape of its tensor",
                                  .got = str(grad, " for ", *this)});
  if (grad.defined() && grad.dtype() != dtype())
    fail<DtypeError>("set_grad", {.what = "a gradient has the dtype of its tensor",
                                  .got = str(grad, " for ", *this),
                                  .hint = "use g.to(dtype)"});
  if (grad.defined() && !(grad.device() == device()))
    fail<DeviceError>("set_grad", {.what = "a gradient is on the device of its tensor",
                                   .got = str(grad, " for ", *this),
                                   .hint = "use g.to(device)"});
  if (!grad.defined() && !find_grad_state(*this)) return;
  GradState& state = grad_state(*this);
  const auto lock = locked(state);
  if (state.grad.defined() && grad.is_same(state.grad)) return;
  state.grad = grad;
  state.mark = {};
}

const Tensor& Tensor::retain_grad() const {
  if (!requires_grad())
    fail<StateError>("retain_grad", {.what = "the tensor requires no gradient",
                                     .got = str(*this),
                                     .expected = "the result of recorded operations",
                                     .hint = "set requires_grad_() on a leaf it depends on"});
  if (is_leaf()) return *this;  // leaves always keep their gradient
  GradState& state = grad_state(*this);
  if (state.retained) return *this;
  state.retained = std::make_shared<Tensor>();
  state.grad_fn->add_hook(state.output, [slot = state.retained](const Tensor& g) {
    *slot = g;
    return Tensor{};
  });
  return *this;
}

void Tensor::backward(const Tensor& gradient, bool retain_graph, bool create_graph) const {
  const std::span<const Tensor> incoming =
      gradient.defined() ? std::span(&gradient, 1) : std::span<const Tensor>{};
  mezzo::backward(std::span(this, 1), incoming, retain_graph, create_graph);
}

}  // namespace mezzo
