#include "scope_gradients.h"

#include <algorithm>

#include "../../autograd/node.h"
#include "../../tensor/device/capture.h"
#include "../../tensor/ops/create.h"
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
  std::unordered_set<const void*> seen;
  std::size_t position = 0;
  each_slot(optimizer, [&](const Slot& slot) {
    const std::size_t here = position++;
    const std::uint32_t number = gradient_number(index, here);
    const Tensor grad = slot.param.grad();
    if (!grad.defined()) return;
    require_reduced(slot.param, op, "leave no_sync before the last backward");
    require_unscaled_gradient(slot.param, op);
    const GradientMark mark = gradient_mark(slot.param);
    const bool was_unscaled = is_unscaled(mark.scale);
    if (was_unscaled && mark.part.is_same(grad)) {
      gradients.push_back({{grad.detach(), {}, {}, number}});
      return;
    }
    if (writes && grad.dtype() == f16)
      fail<DtypeError>(
          op, {.what = str("parameter ", here, " has an f16 gradient"),
               .got = str(grad),
               .expected = "bf16, f32 or f64",
               .hint = "keep the parameters in f32 and run the forward pass under autocast"});
    const bool is_shared = grad.numel() > 0 && !seen.insert(grad.raw_data()).second;
    const Tensor x = is_shared ? grad.detach().clone() : writes ? dense(grad) : grad.detach();
    const Tensor part = writes && was_unscaled ? mark.part.detach() : Tensor{};
    gradients.push_back({{x, part, writes ? x : Tensor{}, number}});
    if (is_shared || (writes && !same_dense_layout(grad, grad)))
      restore_gradient(slot.param, x, was_unscaled ? mark : GradientMark{});
  });
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

void ScopeGradients::prepare(Optimizer& optimizer, Seen& seen) {
  entered_.clear();  // an earlier scope may have failed to open
  results_.clear();
  each_slot(optimizer, [&](Slot& slot) {
    if (!seen.insert(slot.param.impl()).second) return;
    if (gradient_scale(slot.param) == GradientScale::delayed) return;
    stash_->erase(slot.param.impl());
    const Tensor grad = slot.param.grad();
    if (!grad.defined()) return;
    require_reduced(slot.param, "amp::scale_loss", "leave no_sync before the last backward");
    stash_->insert_or_assign(slot.param.impl(),
                             EarlierGradient{slot.param, grad, gradient_mark(slot.param)});
    entered_.push_back(slot.param);
  });
}

void ScopeGradients::enter() {
  for (const Tensor& param : entered_) param.set_grad({});
  entered_.clear();
}

bool ScopeGradients::has_stash(const Optimizer& optimizer) const {
  bool any = false;
  if (!stash_->empty())
    each_slot(optimizer,
              [&](const Slot& slot) { any = any || stash_->count(slot.param.impl()) > 0; });
  return any;
}

EarlierGradient ScopeGradients::stashed(const Tensor& param) const {
  const auto found = stash_->find(param.impl());
  return found == stash_->end() ? EarlierGradient{} : found->second;
}

void ScopeGradients::delay(Optimizer& optimizer, Seen& seen) {
  each_slot(optimizer, [&](Slot& slot) {
    if (!seen.insert(slot.param.impl()).second) return;
    if (slot.param.grad().defined()) return mark_gradient(slot.param, GradientScale::delayed);
    const auto found = stash_->find(slot.param.impl());
    if (found == stash_->end()) return;
    restore_gradient(slot.param, found->second.grad, found->second.mark);
    stash_->erase(found);
  });
}

void ScopeGradients::collect(Optimizer& optimizer, std::size_t index, bool stays_scaled,
                             const std::function<optim::Factor(Device)>& a, const optim::Factor& b,
                             Seen& seen, std::vector<GradientSum>& sums) {
  std::size_t position = 0;
  each_slot(optimizer, [&](Slot& slot) {
    const std::uint32_t number = gradient_number(index, position++);
    if (!seen.insert(slot.param.impl()).second) return;
    require_reduced(slot.param, "amp::scale_loss",
                    "pass delay_unscale, or leave no_sync before the last scope");
    if (through_master(slot) && !stays_scaled)
      collect_for_master(slot, number, a, sums);
    else
      collect_in_place(slot.param, number,
                       stays_scaled ? GradientScale::kept : GradientScale::plain, a, b, sums);
  });
}

void ScopeGradients::collect_for_master(const Slot& slot, std::uint32_t number,
                                        const std::function<optim::Factor(Device)>& a,
                                        std::vector<GradientSum>& sums) {
  if (!slot.param.grad().defined()) {
    if (const EarlierGradient earlier = stashed(slot.param); earlier.grad.defined())
      kept_.push_back(earlier);
    return;
  }
  const ReceivedGradient received = received_gradient(slot.param);
  const Tensor grad = received.wide.defined() ? received.wide : slot.param.grad();
  const Tensor former = slot.master.grad(),
               out = former.defined() ? former : new_gradient(slot.master);
  sums.push_back({{grad, former, out, number}, a(grad.device()) * received.factor});
  (void)grad_state(slot.master);  // allocates it now: finish() must not allocate
  results_.push_back({slot.master, out, GradientScale::unscaled});
  results_.push_back({slot.param, slot.param.grad(), GradientScale::in_master});
}

void ScopeGradients::collect_in_place(const Tensor& param, std::uint32_t number,
                                      GradientScale scale,
                                      const std::function<optim::Factor(Device)>& a,
                                      const optim::Factor& b, std::vector<GradientSum>& sums) {
  const EarlierGradient earlier = stashed(param);
  const Tensor grad = param.grad(), former = earlier.grad;
  if (grad.defined()) {
    // A captured step accumulates in the memory that the next replay reads.
    const bool in_former = former.defined() && Capture::current() &&
                           same_dense_layout(former, former) && !former.requires_grad();
    const Tensor x = dense(grad), out = in_former ? former : x;
    sums.push_back(
        {{x, former, out, number}, a(param.device()) * received_gradient(param).factor, b});
    results_.push_back({param, out, scale});
  } else if (former.defined()) {
    const bool stays = b == optim::Factor(1);
    if (stays) return kept_.push_back(earlier);
    const Tensor out = dense(former);
    sums.push_back({{out, {}, out, number}, b, 0, false});
    results_.push_back({param, out, scale});
  }
}

void ScopeGradients::finish(Optimizer& optimizer) {
  for (const Result& result : results_) {
    result.tensor.set_grad(result.grad);
    mark_gradient(result.tensor, result.scale);
  }
  for (const EarlierGradient& earlier : kept_)
    restore_gradient(earlier.param, earlier.grad, earlier.mark);
  forget(optimizer);
}

void ScopeGradients::roll_back(Optimizer& optimizer, Seen& seen) {
  each_slot(optimizer, [&](Slot& slot) {
    if (!seen.insert(slot.param.impl()).second) return;
    if (gradient_scale(slot.param) == GradientScale::delayed) return;
    const EarlierGradient earlier = stashed(slot.param);
    drop_local_gradient(slot.param);
    restore_gradient(slot.param, earlier.grad, earlier.mark);
    stash_->erase(slot.param.impl());
  });
  entered_.clear();
  results_.clear();
  kept_.clear();
}

void ScopeGradients::forget(Optimizer& optimizer) {
  if (!stash_->empty()) each_slot(optimizer, [&](Slot& slot) { stash_->erase(slot.param.impl()); });
  entered_.clear();
  results_.clear();
  kept_.clear();
}

}  // namespace mezzo::amp
