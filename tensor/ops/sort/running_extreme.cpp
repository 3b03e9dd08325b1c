// Shape rules, gradients and public functions of the ops in running_extreme.h.
#include "running_extreme.h"

#include "../../core/dispatch.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../create.h"
#include "../elementwise/compare.h"
#include "../elementwise/selection.h"
#include "../index/gather.h"
#include "../reduce/arg_reduce.h"
#include "../reduce/reduce.h"
#include "../require.h"
#include "sort.h"

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

// Gradients of the cumulative extremes: each element of g is added to the chosen element. And the
// composite of median.

namespace {

Grads added_at_indices(const Saved& saved, std::int64_t dim, const Tensor& g) {
  const Tensor whole = zeros(saved.shape(0), {.dtype = g.dtype(), .device = g.device()});
  return {scatter_add(whole, dim, saved.outputs[1], g)};
}

/** Returns the index of the median of every slice, or of a nan if there is one. */
Tensor median_index(const Tensor& x, int dim, std::int64_t length) {
  const Tensor middle = kthvalue(x, (length + 1) / 2, {.dim = dim, .keepdim = true}).indices;
  if (!is_floating(x.dtype())) return middle;
  const Tensor undefined = any(isnan(x), dim, {.keepdim = true});
  return where(undefined, argmax(x, {.dim = dim, .keepdim = true}), middle);
}

}  // namespace

Grads Cummax::backward(const Saved& saved, const Grads& gy) {
  return added_at_indices(saved, saved.attrs<Cummax>().dim, gy[0]);
}

Grads Cummin::backward(const Saved& saved, const Grads& gy) {
  return added_at_indices(saved, saved.attrs<Cummin>().dim, gy[0]);
}

std::vector<Tensor> Median::composite(Inputs in, const Attrs& attrs) {
  const Tensor& x = in[0];
  const int dim = wrap_dim(attrs.dim, x.dim(), "median");
  const std::int64_t length = x.dim() == 0 ? 1 : x.shape()[dim];
  if (length == 0)
    fail<ShapeError>("median", {.what = "there is no element",
                                .got = str("dimension ", dim, " of ", x),
                                .expected = "a dimension that is not empty"});
  Tensor indices;
  {
    const NoGrad no_grad;
    indices = median_index(x.detach(), dim, length);
  }
  const Tensor values = gather(x, dim, indices);
  if (attrs.keepdim || x.dim() == 0) return {values, indices};
  return {values.squeeze(dim), indices.squeeze(dim)};
}

}  // namespace mezzo::op

namespace mezzo {

ValuesAndIndices cummax(const Tensor& x, std::int64_t dim) {
  return apply_pair<ValuesAndIndices, op::Cummax>({dim}, x);
}

ValuesAndIndices cummin(const Tensor& x, std::int64_t dim) {
  return apply_pair<ValuesAndIndices, op::Cummin>({dim}, x);
}

Tensor median(const Tensor& x) {
  require_defined("median", x);
  return apply_pair<ValuesAndIndices, op::Median>({0, false}, x.reshape({x.numel()})).values;
}

ValuesAndIndices median(const Tensor& x, std::int64_t dim, const KeepDimOptions& options) {
  return apply_pair<ValuesAndIndices, op::Median>({dim, options.keepdim}, x);
}

}  // namespace mezzo
