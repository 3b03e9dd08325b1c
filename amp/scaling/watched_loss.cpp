#include "watched_loss.h"

#include <utility>

#include "../../autograd/node.h"
#include "../../tensor/core/dispatch.h"
#include "../../tensor/core/error.h"

namespace mezzo::amp {

namespace {

/** Passes a gradient on, and notes that there was one. */
class WatchedNode final : public Node {
 public:
  WatchedNode(const Tensor& x, const std::shared_ptr<std::atomic<int>>& reached,
              std::string_view scope)
      : reached_(reached), scope_(scope) {
    follow(gradient_edge(x));
  }
  Grads apply(Grads gy) override {
    const auto reached = reached_.lock();
    if (!reached && !scope_.empty() && gy[0].defined())
      fail<StateError>(scope_, {.what = "backward of a scaled loss after the end of its scope",
                                .got = "gradients that would stay multiplied by the loss scale",
                                .expected = "scaled.backward() in the body of scale_loss, or "
                                            "scope.loss().backward() before scope.close()"});
    if (reached && gy[0].defined()) ++*reached;
    return gy;
  }
  std::string name() const override { return "scale_loss"; }

 private:
  std::weak_ptr<std::atomic<int>> reached_;
  std::string_view scope_;  // a literal
};

}  // namespace

Tensor watched(const Tensor& x, const std::shared_ptr<std::atomic<int>>& reached,
               std::string_view scope) {
  if (!x.requires_grad() || !grad_enabled()) return x;
  const Tensor y = x.detach();
  set_grad_fn(y, make_ref<WatchedNode>(x, reached, scope), 0);
  return y;
}

}  // namespace mezzo::amp
