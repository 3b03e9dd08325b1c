#include "master.h"

#include "../autograd/grad_mode.h"
#include "../autograd/ops/operators.h"
#include "../autograd/rebind.h"

namespace mezzo::amp {

Master* Masters::find(const Tensor& param) {
  const auto found = masters_.find(param.impl());
  return found == masters_.end() ? nullptr : &found->second;
}

Master& Masters::create(const Tensor& param, const Tensor& value) {
  const NoGrad no_grad;
  const CastScope no_casts(nullptr);
  const Tensor master = value.defined() ? value.detach() : param.detach().to(f32);
  master.requires_grad_();
  master.impl()->storage->set_category(MemoryCategory::masters);
  Master& entry = masters_.insert_or_assign(param.impl(), Master{param, master}).first->second;
  entry.in_step();
  param.impl()->twin = Twin::low;
  return entry;
}

void Masters::reconcile(Master& entry) {
  convert_(entry.master, entry.param.device());
  if (entry.written == entry.param.version()) return;
  const NoGrad no_grad;
  const CastScope no_casts(nullptr);
  const Tensor low = entry.param.detach(), master = entry.master.detach();
  master.copy_(where(master.to(low.dtype()) == low, master, low.to(f32)));
  entry.in_step();
}

void Masters::clear() {
  for (auto& [impl, entry] : masters_) entry.param.impl()->twin = entry.master.impl()->twin = Twin::none;
  masters_.clear();
}

}  // namespace mezzo::amp
