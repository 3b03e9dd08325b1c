// Shape rules of the running sums and products.
#include "scan.h"

#include "../core/registry.h"

namespace mezzo::op {

namespace {
OutSpecs accumulated(const Tensor& x) {
  return {{x.shape(), is_floating(x.dtype()) ? x.dtype() : DType::i64}};
}
}  // namespace

OutSpecs Cumprod::infer(Inputs in, const Attrs&) { return accumulated(in[0]); }

OutSpecs CumprodBackward::infer(Inputs in, const Attrs&) {
  return {{in[1].shape(), in[1].dtype()}};
}

OutSpecs Cumsum::infer(Inputs in, const Attrs&) { return accumulated(in[0]); }

std::span<OpInfo* const> scan_ops() { return infos_of(ScanOps{}); }

}  // namespace mezzo::op
