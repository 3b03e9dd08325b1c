// Shape rules of normalisation over a batch on several ranks.
#include "sync_batch_norm.h"

#include "../core/registry.h"
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

}  // namespace mezzo::op
