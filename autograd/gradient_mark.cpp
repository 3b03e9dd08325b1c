#include "gradient_mark.h"

#include "../tensor/core/dispatch.h"
#include "../tensor/ops/create.h"
#include "../tensor/text/text.h"
#include "gradient_receiver.h"
#include "leaf_lock.h"

namespace mezzo {

GradientMark gradient_mark(const Tensor& leaf) {
  const GradState* state = find_grad_state(leaf);
  if (!state) return {};
  const auto lock = locked(*state);
  return state->mark;
}

GradientScale gradient_scale(const Tensor& leaf) {
  const GradState* state = find_grad_state(leaf);
  if (!state) return GradientScale::plain;
  const auto lock = locked(*state);
  return state->mark.scale;
}

void mark_gradient(const Tensor& leaf, GradientScale scale) {
  if (!find_grad_state(leaf)) return;
  GradState& state = grad_state(leaf);
  const auto lock = locked(state);
  if (!state.grad.defined()) return;
  if (scale == GradientScale::plain)
    state.mark = {};
  else
    state.mark = {scale, state.grad, state.grad.version()};
}

void restore_gradient(const Tensor& leaf, const Tensor& grad, const GradientMark& mark) {
  leaf.set_grad(grad);
  if (!grad.defined()) return;
  GradState& state = grad_state(leaf);
  const auto lock = locked(state);
  state.mark = mark;
}

bool written_since_mark(const Tensor& leaf) {
  const GradState* state = find_grad_state(leaf);
  if (!state) return false;
  const auto lock = locked(*state);
  const GradientMark& mark = state->mark;
  return !mark.part.defined() || !mark.part.is_same(state->grad) ||
         mark.part.version() != mark.version;
}

void require_unscaled_gradient(const Tensor& leaf, std::string_view op) {
  const GradientScale scale = gradient_scale(leaf);
  if (scale == GradientScale::delayed)
    fail<StateError>(op, {.what = "a gradient is still scaled: a scale_loss scope with "
                                  "delay_unscale left it so",
                          .got = str("the gradient of ", leaf),
                          .hint = "run a scope without delay_unscale first, over all optimizers "
                                  "that hold the parameter"});
  if (scale == GradientScale::in_master)
    fail<StateError>(op, {.what = "a gradient is still scaled: a session unscales it for its own "
                                  "optimizers only",
                          .got = str("the gradient of ", leaf),
                          .hint = "pass every optimizer of the parameter to amp::initialize"});
}

namespace {

/** Returns true if the gradient can be overwritten in place: it is not part of a graph, no elements
 *  share memory, and no write of its memory is pending that would come before. */
bool is_writable(const Tensor& grad) {
  return !grad.requires_grad() && same_dense_layout(grad, grad) &&
         !grad.impl()->storage->late_write();
}

}  // namespace

Tensor detail::replacement_of_gradient(const Tensor& leaf, bool set_to_none) {
  drop_local_gradient(leaf);
  const Tensor grad = leaf.grad();
  if (set_to_none || !grad.defined() || is_writable(grad)) return {};
  const NoGradNoCasts plain_ops;
  return zeros_like(leaf);
}

void detail::clear_gradient(const Tensor& leaf, bool set_to_none) {
  const Tensor grad = leaf.grad();
  if (!grad.defined()) return;
  if (set_to_none) return leaf.set_grad({});
  if (!is_writable(grad)) return;
  const NoGradNoCasts plain_ops;
  grad.zero_();
  mark_gradient(leaf, GradientScale::zero);
}

}  // namespace mezzo
