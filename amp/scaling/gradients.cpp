#include "gradients.h"

#include <algorithm>
#include <array>

#include "../../autograd/node.h"
#include "../../tensor/core/error.h"
#include "../../tensor/device/capture.h"
#include "../../tensor/memory/transfer.h"
#include "../../tensor/ops/create.h"
#include "../../tensor/text/text.h"
#include "../diagnose/nonfinite_gradient.h"
#include "../weights/optimizer_masters.h"

namespace mezzo::amp {

using optim::FoundInf;
using optim::NonfiniteWord;
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

const FoundInf& move_to(Device device, FoundInf& found_inf) {
  if (found_inf.word.defined() && found_inf.word.device() == device) return found_inf;
  const FoundInf moved = FoundInf::reset_on(device);
  if (found_inf.word.defined()) moved.word.copy_(found_inf.word);
  return found_inf = moved;
}

void unscale(std::vector<GradientSum> sums, const FoundInf& found_inf) {
  while (!sums.empty()) {
    const GradientSum head = sums.front();
    const Device device = head.tensors.x.device();
    const auto rest = std::stable_partition(sums.begin(), sums.end(), [&](const GradientSum& item) {
      return item.tensors.x.device() == device && item.a == head.a;
    });
    std::vector<optim::AxpbyTensors> items;
    for (auto item = sums.begin(); item != rest; ++item) items.push_back(item->tensors);
    const bool elsewhere = found_inf.word.defined() && device != found_inf.word.device();
    const FoundInf here = elsewhere ? FoundInf::reset_on(device) : found_inf;
    if (head.tensors.out.defined())
      optim::axpby(items, head.a, 1, here);
    else
      optim::check_finite(items, here);
    if (elsewhere && here.raised()) {
      const NonfiniteWord first = std::max(here.location(), found_inf.location());
      upload(found_inf.word, &first, sizeof first);
    }
    sums.erase(sums.begin(), rest);
  }
}

// ---- several processes --------------------------------------------------------------------------

namespace {

// What one process tells the others, as numbers.
constexpr std::size_t kHasGradients = 0;
constexpr std::size_t kScale = 1;           // the loss scale
constexpr std::size_t kChecks = 2;          // the scaler's number of checks
constexpr std::size_t kLocal = 3;           // 1: its own gradients overflowed; 0: not; -1: unknown
constexpr std::size_t kHigh = 4, kLow = 5;  // the halves of the overflow flag
constexpr std::size_t kNumbers = 6;         // in all

void require_one_scale(std::span<const double> all) {
  for (std::size_t r = kNumbers; r < all.size(); r += kNumbers)
    if (all[r + kScale] != all[kScale] || all[r + kChecks] != all[kChecks])
      fail<CommError>("amp", {.what = "the loss scale differs",
                              .got = str(all[kScale], " on rank 0 after ", all[kChecks],
                                         " checks, ", all[r + kScale], " on rank ", r / kNumbers,
                                         " after ", all[r + kChecks], " checks")});
}

/** Returns where the first process was that had the overflow in its own gradients. */
std::string origin_of(std::span<const double> all) {
  for (std::size_t r = 0; r < all.size(); r += kNumbers)
    if (all[r + kLocal] < 0) return {};
  for (std::size_t r = 0; r < all.size(); r += kNumbers)
    if (all[r + kLocal] > 0) return str(", first on rank ", r / kNumbers);
  return ", on no rank alone: in the sum";
}

double found_local_overflow(const Receivers& receivers) {
  bool is_known = true, any = false;
  for (GradientReceiver* const receiver : receivers) {
    const std::optional<bool> one = receiver->found_local_overflow();
    is_known = is_known && one.has_value();
    any = any || one.value_or(false);
  }
  return any ? 1 : is_known ? 0 : -1;
}

}  // namespace

bool agree(const Receivers& receivers, LossScaler& scaler, const FoundInf& found_inf,
           bool has_gradients) {
  if (receivers.empty()) return has_gradients;
  NonfiniteWord first = found_inf.location();
  const std::array<double, kNumbers> mine{has_gradients ? 1.0 : 0.0,
                                          scaler.loss_scale(),
                                          static_cast<double>(scaler.state().checks),
                                          found_local_overflow(receivers),
                                          static_cast<double>(first >> 32),
                                          static_cast<double>(first & 0xffffffff)};
  const std::vector<double> all = receivers[0]->gather(mine);
  require_one_scale(all);
  for (std::size_t r = 0; r < all.size(); r += kNumbers) {
    has_gradients = has_gradients || all[r + kHasGradients] != 0;
    first = std::max(first, static_cast<NonfiniteWord>(all[r + kHigh]) << 32 |
                                static_cast<NonfiniteWord>(all[r + kLow]));
  }
  if (first != optim::kAllFinite) {
    scaler.overflow_origin = origin_of(all);
    upload(found_inf.word, &first, sizeof first);
  }
  return has_gradients;
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

void ScopeGradients::collect(Optimizer& optimizer, std::size_t index, const ScaleValue& scale,
                             Seen& seen, std::vector<GradientSum>& sums) {
  std::size_t position = 0;
  each_slot(optimizer, [&](Slot& slot) {
    const std::uint32_t number = gradient_number(index, position++);
    if (!seen.insert(slot.param.impl()).second) return;
    require_reduced(slot.param, "amp::scale_loss",
                    "pass delay_unscale, or leave no_sync before the last scope");
    if (!slot.param.grad().defined()) {
      if (const EarlierGradient earlier = stashed(slot.param); earlier.grad.defined())
        kept_.push_back(earlier);
    } else if (through_master(slot)) {
      collect_for_master(slot, number, scale, sums);
    } else {
      collect_in_place(slot.param, number, scale, sums);
    }
  });
}

void ScopeGradients::collect_for_master(const Slot& slot, std::uint32_t number,
                                        const ScaleValue& scale, std::vector<GradientSum>& sums) {
  const ReceivedGradient received = received_gradient(slot.param);
  const Tensor grad = received.wide.defined() ? received.wide : slot.param.grad();
  const Tensor former = slot.master.grad(),
               out = former.defined() ? former : new_gradient(slot.master);
  sums.push_back({{grad, former, out, number}, scale.inverse(grad.device()) * received.factor});
  (void)grad_state(slot.master);  // allocates it now: finish() must not allocate
  results_.push_back({slot.master, out, GradientScale::unscaled});
  results_.push_back({slot.param, slot.param.grad(), GradientScale::in_master});
}

void ScopeGradients::collect_in_place(const Tensor& param, std::uint32_t number,
                                      const ScaleValue& scale, std::vector<GradientSum>& sums) {
  const Tensor former = stashed(param).grad, x = dense(param.grad());
  // A captured step accumulates in the memory that the next replay reads.
  const bool in_former = former.defined() && Capture::current() &&
                         same_dense_layout(former, former) && !former.requires_grad();
  const Tensor out = in_former ? former : x;
  sums.push_back(
      {{x, former, out, number}, scale.inverse(param.device()) * received_gradient(param).factor});
  results_.push_back({param, out, GradientScale::plain});
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
