#include "pending_writes.h"

#include <algorithm>

#include "dispatch.h"

namespace mezzo {

namespace {

/** A scope without recording of gradients and without casts. */
class NoGradNoCasts {
 public:
  NoGradNoCasts() : recorded_(std::exchange(thread_hooks().grad_enabled, false)) {}
  ~NoGradNoCasts() { thread_hooks().grad_enabled = recorded_; }
  NoGradNoCasts(const NoGradNoCasts&) = delete;
  NoGradNoCasts& operator=(const NoGradNoCasts&) = delete;

 private:
  bool recorded_;
  CastScope no_casts_{nullptr};
};

}  // namespace

void PendingWrites::add(const Tensor& to, const Tensor& value) {
  const NoGradNoCasts scope;
  const Tensor here = value.detach().to(to.device()).to(to.dtype());
  writes_.emplace_back(to,
                       same_dense_layout(here, to) ? here : here.contiguous(to.memory_format()));
}

void PendingWrites::commit() const {
  const NoGradNoCasts scope;
  for (const auto& [to, value] : writes_) to.copy_(value);
}

bool PendingWrites::fit() const {
  return std::all_of(writes_.begin(), writes_.end(), [](const auto& write) {
    return write.first.dtype() == write.second.dtype() &&
           write.first.device() == write.second.device();
  });
}

}  // namespace mezzo
