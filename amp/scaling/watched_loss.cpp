#include "watched_loss.h"

#include <utility>

#include "../../autograd/grad_mode.h"
#include "../../autograd/node.h"

namespace mezzo::amp {

namespace {

/** Passes a gradient on, and notes that there was one. */
class WatchedNode final : public Node {
 public:
  WatchedNode(const Tensor& x, std::shared_ptr<std::atomic<int>> reached)
      : reached_(std::move(reached)) {
    follow(gradient_edge(x));
  }
  Grads apply(Grads gy) override {
    if (gy[0].defined()) ++*reached_;
    return gy;
  }
  std::string name() const override { return "scale_loss"; }

 private:
  std::shared_ptr<std::atomic<int>> reached_;
};

}  // namespace

Tensor watched(const Tensor& x, std::shared_ptr<std::atomic<int>> reached) {
  if (!x.requires_grad() || !grad_enabled()) return x;
  const Tensor y = x.detach();
  set_grad_fn(y, make_ref<WatchedNode>(x, std::move(reached)), 0);
  return y;
}

}  // namespace mezzo::amp
