// Gradient of batch norm over a batch on several ranks.
#include "../../tensor/ops/sync_batch_norm.h"

#include "../../tensor/core/dispatch.h"
#include "../../tensor/text/text.h"

namespace mezzo::op {

Grads SyncBatchNorm::backward(const Saved& saved, const Grads& gy) {
  const auto& attrs = saved.attrs<SyncBatchNorm>();
  const Tensor &x = saved.inputs[0], &mean = saved.outputs[1], &rstd = saved.outputs[2];
  auto [sums, dw, db] = apply_all<ChannelGradientSums>({}, gy[0], x, mean, rstd);
  if (!saved.wants(0)) return {{}, std::move(dw), std::move(db)};
  const std::string label = str("batch_norm(", current_module_path(), ") backward");
  attrs.group.all_reduce(sums, {.order = comm::Order::ranks, .label = label}).wait();
  Tensor dx =
      apply_with<SyncBatchNormBackward>({attrs.count}, gy[0], x, saved.inputs[1], mean, rstd, sums);
  return {std::move(dx), std::move(dw), std::move(db)};
}

}  // namespace mezzo::op
