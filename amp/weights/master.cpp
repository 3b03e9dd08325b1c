#include "master.h"

#include "../../nn/rebind.h"
#include "../../tensor/core/dispatch.h"
#include "../../tensor/ops/elementwise/operators.h"

namespace mezzo::amp {

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

}  // namespace mezzo::amp
