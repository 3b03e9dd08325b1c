#include "scope_gradients.h"

#include <algorithm>

#include "../../autograd/node.h"
#include "../../autograd/ops/create.h"
#include "../../tensor/text/text.h"
#include "../diagnose/nonfinite_gradient.h"
#include "../weights/optimizer_masters.h"

namespace mezzo::amp {

using optim::Optimizer;
using optim::Slot;

namespace {

/** Returns the gradient itself if it can be written in place, otherwise a dense copy. */
Tensor dense(const Tensor& grad) {
  return same_dense_layout(grad, grad) ? grad.detach() : grad.detach().contiguous();
}

/** Allocates a master's first gradient. */
Tensor new_gradient(const Tensor& master) {
  Tensor grad = empty_like(master);
  grad.impl()->storage->set_category(MemoryCategory::gradients);
  return grad;
}

}  // namespace

std::vector<GradientSum> gradients_of(const Optimizer& optimizer, std::size_t index,
                                      std::string_view op, bool writes) {
  std::vector<GradientSum> gradients;
  std::size_t position = 0;
  for (std::size_t group = 0; group < optimizer.num_groups(); ++group)
    for (const Slot& slot : optimizer.slots(group)) {
      const std::size_t here = position++;
      const Tensor grad = slot.param.grad();
      if (!grad.defined()) continue;
      require_reduced(slot.param, op, "leave no_sync before the last backward");
      if (writes && grad.dtype() == f16)
        fail<DtypeError>(
            op, {.what = str("parameter ", here, " has an f16 gradient"),
                 .got = str(grad),
                 .expected = "bf16, f32 or f64",
                 .hint = "keep the parameters in f32 and run the forward pass under autocast"});
      const Tensor x = writes ? dense(grad) : grad.detach();
      gradients.push_back({{x, {}, writes ? x : Tensor{}, gradient_number(index, here)}});
      if (writes && !same_dense_layout(grad, grad)) slot.param.set_grad(x);
    }
  return gradients;
}

void add_receivers(const Optimizer& optimizer, Receivers& receivers) {
  for (std::size_t group = 0; group < optimizer.num_groups(); ++group)
    for (const Slot& slot : optimizer.slots(group))
      if (GradientReceiver* const receiver = gradient_receiver(slot.param);
          receiver && std::find(receivers.begin(), receivers.end(), receiver) == receivers.end())
        receivers.push_back(receiver);
}

// ---- scopes -------------------------------------------------------------------------------------

void ScopeGradients::mark_seen(Optimizer& optimizer, Seen& seen) {
  each_slot(optimizer, [&](Slot& slot) { seen.insert(slot.param.impl()); });
}

void ScopeGradients::prepare(Optimizer& optimizer, Seen& seen, bool keeps_low) {
  forget();  // an earlier scope may have failed to open
  each_slot(optimizer, [&](Slot& slot) {
    if (!seen.insert(slot.param.impl()).second) return;
    const Tensor grad = slot.param.grad();
    if (!grad.defined()) return;
    require_reduced(slot.param, "amp::scale_loss", "leave no_sync before the last backward");
    if (!through_master(slot) || keeps_low) stash_.emplace(slot.param.impl(), grad);
    entered_.push_back(slot.param);
  });
}

void ScopeGradients::enter() {
  for (const Tensor& param : entered_) param.set_grad({});
  entered_.clear();
}

void ScopeGradients::collect(Optimizer& optimizer, std::size_t index, bool in_place,
                             const std::function<optim::Factor(Device)>& a, const optim::Factor& b,
                             Seen& seen, std::vector<GradientSum>& sums) {
  std::size_t position = 0;
  each_slot(optimizer, [&](Slot& slot) {
    const std::uint32_t number = gradient_number(index, position++);
    if (!seen.insert(slot.param.impl()).second) return;
    require_reduced(slot.param, "amp::scale_loss",
                    "pass delay_unscale, or leave no_sync before the last scope");
    if (through_master(slot) && !in_place)
      collect_for_master(slot, number, a, sums);
    else
      collect_in_place(slot.param, number, a, b, sums);
  });
}

void ScopeGradients::collect_for_master(const Slot& slot, std::uint32_t number,
                                        const std::function<optim::Factor(Device)>& a,
                                        std::vector<GradientSum>& sums) {
  if (!slot.param.grad().defined()) return;
  const ReceivedGradient received = received_gradient(slot.param);
  const Tensor grad = received.wide.defined() ? received.wide : slot.param.grad();
  const Tensor former = slot.master.grad(),
               out = former.defined() ? former : new_gradient(slot.master);
  sums.push_back({{grad, former, out, number}, a(grad.device()) * received.factor});
  (void)grad_state(slot.master);  // allocates it now: finish() must not allocate
  results_.emplace_back(slot.master, out);
}

void ScopeGradients::collect_in_place(const Tensor& param, std::uint32_t number,
                                      const std::function<optim::Factor(Device)>& a,
                                      const optim::Factor& b, std::vector<GradientSum>& sums) {
  const auto stashed = stash_.find(param.impl());
  const Tensor grad = param.grad(), former = stashed == stash_.end() ? Tensor{} : stashed->second;
  if (grad.defined()) {
    const Tensor out = dense(grad);
    sums.push_back(
        {{out, former, out, number}, a(param.device()) * received_gradient(param).factor, b});
    results_.emplace_back(param, out);
  } else if (former.defined()) {
    const bool stays = b == optim::Factor(1);
    const Tensor out = stays ? former : dense(former);
    if (!stays) sums.push_back({{out, {}, out, number}, b, 0, false});
    results_.emplace_back(param, out);
  }
}

void ScopeGradients::finish() {
  for (const auto& [tensor, grad] : results_) tensor.set_grad(grad);
  forget();
}

void ScopeGradients::roll_back(Optimizer& optimizer, Seen& seen) {
  each_slot(optimizer, [&](Slot& slot) {
    if (!seen.insert(slot.param.impl()).second) return;
    const auto stashed = stash_.find(slot.param.impl());
    drop_local_gradient(slot.param);
    slot.param.set_grad(stashed == stash_.end() ? Tensor{} : stashed->second);
  });
  forget();
}

void ScopeGradients::forget() {
  entered_.clear();
  stash_.clear();
  results_.clear();
}

}  // namespace mezzo::amp
