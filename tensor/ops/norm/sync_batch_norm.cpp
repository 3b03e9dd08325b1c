// Shape rules and gradients of the ops in sync_batch_norm.h.
#include "sync_batch_norm.h"

#include "../../core/dispatch.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "norm_checks.h"

namespace mezzo::op {

OutSpecs ChannelMoments::infer(Inputs in, const NoAttrs&) {
  check_batch_norm_operands(in, "batch_norm");
  return {{{2 * in[0].shape()[1] + 1}, DType::f64}};
}

OutSpecs SyncBatchNorm::infer(Inputs in, const Attrs&) {
  check_batch_norm_operands(in, "batch_norm");
  const OutSpec statistic{{in[0].shape()[1]}, compute_dtype(in[0].dtype())};
  return {{in[0].shape(), in[0].dtype()}, statistic, statistic, statistic};
}

OutSpecs ChannelGradientSums::infer(Inputs in, const NoAttrs&) {
  const std::int64_t channels = in[1].shape()[1];
  const DType dtype = compute_dtype(in[1].dtype());
  return {{{channels, 2}, dtype}, {{channels}, dtype}, {{channels}, dtype}};
}

OutSpecs SyncBatchNormBackward::infer(Inputs in, const Attrs&) {
  return {{.shape = in[1].shape(), .dtype = in[1].dtype(), .format = in[1].memory_format()}};
}

std::span<OpInfo* const> sync_batch_norm_ops() { return infos_of(SyncBatchNormOps{}); }

// Gradient of batch norm over a batch on several ranks.

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
