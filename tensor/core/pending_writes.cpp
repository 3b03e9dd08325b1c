#include "pending_writes.h"

#include <algorithm>

#include "dispatch.h"

namespace mezzo {

void PendingWrites::add(const Tensor& to, const Tensor& value) {
  const NoGradNoCasts plain_ops;
  const Tensor here = value.detach().to(to.device()).to(to.dtype());
  writes_.emplace_back(to,
                       same_dense_layout(here, to) ? here : here.contiguous(to.memory_format()));
}

void PendingWrites::commit() const {
  const NoGradNoCasts plain_ops;
  for (const auto& [to, value] : writes_) to.copy_(value);
}

bool PendingWrites::fit() const {
  return std::all_of(writes_.begin(), writes_.end(), [](const auto& write) {
    return write.first.dtype() == write.second.dtype() &&
           write.first.device() == write.second.device();
  });
}

}  // namespace mezzo
