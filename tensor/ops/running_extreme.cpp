// Shape rules of the running extremes.
#include "running_extreme.h"

#include "../core/registry.h"

namespace mezzo::op {

namespace {

OutSpecs with_indices(const char* op, const Tensor& x, std::int64_t dim) {
  wrap_dim(dim, x.dim(), op);
  return {{x.shape(), x.dtype()}, {x.shape(), DType::i64}};
}

}  // namespace

OutSpecs Cummax::infer(Inputs in, const Attrs& attrs) {
  return with_indices("cummax", in[0], attrs.dim);
}

OutSpecs Cummin::infer(Inputs in, const Attrs& attrs) {
  return with_indices("cummin", in[0], attrs.dim);
}

std::span<OpInfo* const> running_extreme_ops() { return infos_of(RunningExtremeOps{}); }

}  // namespace mezzo::op
