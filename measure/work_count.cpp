#include "work_count.h"

namespace mezzo {

void StepWork::add(const OpWork& work, DType operands) {
  if (work.flops > 0 || work.bytes > 0) entries_.push_back({work, operands});
}

void StepWork::add_update(const optim::Optimizer& optimizer) {
  const auto bytes = [](const Tensor& x) {
    return x.defined() ? static_cast<double>(x.numel()) * static_cast<double>(item_size(x.dtype()))
                       : 0;
  };
  double total = 0;
  for (const optim::Slot& slot : optimizer.slots()) {
    // The old and the new value, and the gradient.
    total += 2 * bytes(slot.target()) + bytes(slot.param);
    if (slot.master.defined()) total += bytes(slot.param);  // the 16-bit copy
    for (const Tensor& state : slot.state) total += 2 * bytes(state);
  }
  add({0, total}, f32);
}

OpWork StepWork::total() const {
  OpWork sum;
  for (const Entry& entry : entries_) sum += entry.work;
  return sum;
}

double StepWork::floor(const Roof& roof) const {
  double sum = 0;
  for (const Entry& entry : entries_) sum += roof.seconds(entry.work, entry.operands);
  return sum;
}

void WorkCount::trace(const OpInfo& op, Inputs in, Outputs out) {
  NestedTrace::trace(op, in, out);
  const bool has_operand = !in.empty() && in[0].defined();
  work_.add(op_work(op, in, out), has_operand ? in[0].dtype() : f32);
}

void WorkCount::leave_backward(const OpInfo& op, Inputs gy, Inputs gradients) {
  NestedTrace::leave_backward(op, gy, gradients);
  work_.add(backward_work(op, gy, gradients), f32);
}

}  // namespace mezzo
