#include "master.h"

#include "../../autograd/gradient_mark.h"
#include "../../autograd/leaf_lock.h"
#include "../../nn/rebind.h"
#include "../../tensor/core/dispatch.h"
#include "../../tensor/device/capture.h"
#include "../../tensor/ops/create.h"
#include "../../tensor/ops/elementwise/compare.h"
#include "../../tensor/ops/elementwise/operators.h"
#include "../../tensor/ops/reduce/reduce.h"
#include "../../tensor/text/text.h"
#include "../scaling/gradients.h"
#include "../session.h"
#include "../session_core.h"

namespace mezzo::amp {

using optim::Optimizer;
using optim::Slot;

Master* Masters::find(const Tensor& param) {
  const auto found = masters_.find(param.impl());
  return found == masters_.end() ? nullptr : &found->second;
}

Tensor Masters::reconciled(const Master& entry) {
  const NoGradNoCasts plain_ops;
  const Tensor low = entry.param.detach(), master = entry.master.detach().to(low.device());
  if (entry.written == entry.param.version()) return master;
  return where(master.to(low.dtype()) == low, master, low.to(f32));
}

void Masters::erase(const Tensor& param) {
  const auto found = masters_.find(param.impl());
  if (found == masters_.end()) return;
  param.impl()->twin = Twin::none;
  masters_.erase(found);
}

void Masters::clear() {
  for (auto& [impl, entry] : masters_) entry.param.impl()->twin = Twin::none;
  masters_.clear();
}

// ---- changes ------------------------------------------------------------------------------------

Tensor MasterChanges::create(const Tensor& param) {
  const NoGradNoCasts plain_ops;
  if (const Master* had = masters_.find(param)) {
    if (had->is_updated()) return had->master;
    reconcile(param);
    had->master.requires_grad_();
    adopted_.push_back(param);
    return had->master;
  }
  if (const auto found = made_.find(param.impl()); found != made_.end())
    return found->second.master;
  const Tensor master = param.detach().to(f32);
  master.requires_grad_();
  created_.push_back(param);
  made_.emplace(param.impl(), Master{param, master});
  return master;
}

void MasterChanges::keep(const Tensor& param, const Tensor& value) {
  made_.emplace(param.impl(), Master{param, value.detach()});
}

void MasterChanges::reconcile(const Tensor& param) {
  Master* entry = masters_.find(param);
  if (!entry) return;
  const bool moves = !(entry->master.device() == param.device());
  if (!moves && entry->written == param.version()) return;
  if (moves) convert_(entry->master, param.device());  // at once, since the value does not change
  if (entry->written == param.version()) return;
  written_.push_back(entry);
  writes_.add(entry->master, Masters::reconciled(*entry));
}

void MasterChanges::commit() {
  // Nothing after reserve() allocates: the nodes of the map exist already.
  masters_.masters_.reserve(masters_.masters_.size() + made_.size());
  writes_.commit();
  for (Master* entry : written_) entry->in_step();
  for (auto& [impl, entry] : made_) {
    entry.master.impl()->storage->set_category(MemoryCategory::masters);
    entry.in_step();
  }
  masters_.masters_.merge(made_);
  for (const auto* params : {&created_, &adopted_})
    for (const Tensor& param : *params) param.impl()->twin = Twin::low;
  for (const Pointer& pointer : pointers_) *pointer.slot = pointer.master;
}

void MasterChanges::undo() {
  for (const Pointer& pointer : pointers_) *pointer.slot = {};
  for (const Tensor& param : created_) masters_.erase(param);
  for (const Tensor& param : adopted_) param.impl()->twin = Twin::none;
}

// ---- of one optimizer ---------------------------------------------------------------------------

namespace {

[[noreturn]] void refuse_outside(std::string_view op) {
  fail<StateError>(op, {.what = "backward ran outside scale_loss",
                        .got = "gradients of 16-bit parameters that no scope has unscaled",
                        .expected = "scale_loss(loss, optimizer, body) around backward",
                        .hint = "call zero_grad() to drop them"});
}

/** Returns true if all elements are 0. Waits for the device. */
bool is_zero(const Tensor& x) {
  const NoGradNoCasts plain_ops;
  return !any(x.detach() != 0).item<bool>();
}

[[noreturn]] void refuse_write(const Tensor& param, std::string_view op) {
  fail<StateError>(op, {.what = "the gradient of a 16-bit parameter was written to",
                        .got = str("a write to the scaled gradient of ", param),
                        .expected = "writes to the unscaled gradient of its f32 master",
                        .hint = "use amp::master_params(optimizer)"});
}

/** Returns true if a scope has made the master's gradient, not the program. */
bool is_from_scope(const Tensor& master) {
  const GradState* const state = find_grad_state(master);
  if (!state) return true;
  const auto lock = locked(*state);
  return !state->grad.defined() || is_unscaled(state->mark.scale);
}

/** What has become of a 16-bit parameter's gradient since a scope. One that was left scaled is the
 *  same. */
enum class GradientFate : std::uint8_t { same, removed, zero, written, outside };

GradientFate fate_of(const Tensor& param) {
  const GradState* const state = find_grad_state(param);
  if (!state) return GradientFate::removed;
  {
    const auto lock = locked(*state);
    const GradientMark& mark = state->mark;
    if (!state->grad.defined()) return GradientFate::removed;
    if (mark.scale == GradientScale::delayed) return GradientFate::same;
    if (!mark.part.defined() || !mark.part.is_same(state->grad)) return GradientFate::outside;
    if (mark.part.version() == mark.version)
      return mark.scale == GradientScale::zero ? GradientFate::zero : GradientFate::same;
  }
  if (Capture::current() || !is_zero(param.grad())) return GradientFate::written;
  mark_gradient(param, GradientScale::zero);
  return GradientFate::zero;
}

}  // namespace

void sync_masters_gradients(Optimizer& optimizer, std::string_view op) {
  for (const Slot& slot : optimizer.slots()) {
    if (!through_master(slot) || !is_from_scope(slot.master)) continue;
    const GradientFate fate = fate_of(slot.param);
    if (fate == GradientFate::same) continue;
    if (fate == GradientFate::removed || fate == GradientFate::zero) {
      if (find_grad_state(slot.master)) slot.master.set_grad({});
    } else if (!op.empty()) {
      if (fate == GradientFate::outside) refuse_outside(op);
      refuse_write(slot.param, op);
    }
  }
}

void set_zero_gradients(Optimizer& optimizer) {
  const NoGradNoCasts plain_ops;
  for (const Slot& slot : optimizer.slots()) {
    if (!through_master(slot) || slot.master.grad().defined() ||
        gradient_scale(slot.param) != GradientScale::zero)
      continue;
    const Tensor zeros = zeros_like(slot.master);
    zeros.impl()->storage->set_category(MemoryCategory::gradients);
    slot.master.set_grad(zeros);
    mark_gradient(slot.master, GradientScale::unscaled);
  }
}

Tensor masters_gradient(const Tensor& param, const Tensor& master) {
  if (!is_from_scope(master) || (param.grad().defined() && master.grad().defined()))
    return master.grad();
  const bool is_zero = gradient_scale(param) == GradientScale::zero;
  return is_zero ? param.grad().detach().to(f32) : Tensor{};
}

void create_masters(const SessionCore& core, std::span<Slot> slots, MasterChanges& changes) {
  if (!core.options.masters()) return;
  for (Slot& slot : slots) {
    const Tensor& param = slot.param;
    if (through_master(slot) || !is_low(param.dtype())) continue;
    if (!param.requires_grad() && !param.grad().defined()) continue;
    create_master(slot, changes);
  }
}

void create_master(Slot& slot, MasterChanges& changes) {
  changes.point(slot.master, changes.create(slot.param));
}

void bring_masters_up_to_date(const SessionCore& core, Optimizer& optimizer,
                              MasterChanges& changes) {
  if (!core.options.masters()) return;
  create_masters(core, optimizer.slots(), changes);
  for (const Slot& slot : optimizer.slots())
    if (through_master(slot)) changes.reconcile(slot.param);
}

void bring_masters_up_to_date(SessionCore& core, Optimizer& optimizer) {
  MasterChanges changes(core.masters);
  bring_masters_up_to_date(core, optimizer, changes);
  changes.commit();
}

SavedMasters::~SavedMasters() {
  if (kept_) return;
  for (auto change = changes_.rbegin(); change != changes_.rend(); ++change) change->undo();
}

void SavedMasters::create(SessionCore& core, Optimizer& optimizer, const mezzo::StateDict& saved,
                          const optim::Names& names) {
  if (!core.options.masters()) return;
  MasterChanges& changes = changes_.emplace_back(core.masters);
  create_masters(core, optimizer.slots(), changes);
  std::unordered_map<const TensorImpl*, std::string_view> name_of;
  for (const optim::NamedTensor& entry : names) name_of.emplace(entry.tensor.impl(), entry.name);
  for (Slot& slot : optimizer.slots()) {
    const auto name = name_of.find(slot.param.impl());
    if (slot.master.defined() || !is_low(slot.param.dtype()) || name == name_of.end()) continue;
    if (saved.tensors.contains(str(name->second, ".master"))) create_master(slot, changes);
  }
  changes.commit();
}

void masters_in_step(SessionCore& core, Optimizer& optimizer) {
  for (const Slot& slot : optimizer.slots()) {
    Master* const master = through_master(slot) ? core.masters.find(slot.param) : nullptr;
    if (master) master->in_step();
  }
}

std::vector<Tensor> master_params(Optimizer& optimizer) {
  if (const auto state = AmpOptimizerState::of(optimizer)) {
    bring_masters_up_to_date(*state->core, optimizer);
    sync_masters_gradients(optimizer);
  }
  return optimizer.params();
}

}  // namespace mezzo::amp
