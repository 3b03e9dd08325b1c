#include "pending_writes.h"

#include <algorithm>

#include "dispatch.h"

namespace mezzo {

namespace {

/** No recording and no casts until the end of the scope. */
class Plain {
 public:
  Plain() : recorded_(std::exchange(thread_hooks().grad_enabled, false)) {}
  ~Plain() { thread_hooks().grad_enabled = recorded_; }
  Plain(const Plain&) = delete;
  Plain& operator=(const Plain&) = delete;

 private:
  bool recorded_;
  CastScope no_casts_{nullptr};
};

}  // namespace

void PendingWrites::add(const Tensor& to, const Tensor& value) {
  const Plain plain;
  const Tensor here = value.detach().to(to.device()).to(to.dtype());
  writes_.emplace_back(to, lie_alike(here, to) ? here : here.contiguous(to.memory_format()));
}

void PendingWrites::commit() const {
  const Plain plain;
  for (const auto& [to, value] : writes_) to.copy_(value);
}

bool PendingWrites::fit() const {
  return std::all_of(writes_.begin(), writes_.end(), [](const auto& write) {
    return write.first.dtype() == write.second.dtype() && write.first.device() == write.second.device();
  });
}

}  // namespace mezzo
