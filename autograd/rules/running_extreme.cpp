// Gradients of the cumulative extremes: each element of g is added to the chosen element. And the
// composite of median.
#include "../../tensor/ops/running_extreme.h"

#include "../../tensor/core/dispatch.h"
#include "../../tensor/text/text.h"
#include "../grad_mode.h"
#include "../ops/compare.h"
#include "../ops/create.h"
#include "../ops/gather.h"
#include "../ops/reduce.h"
#include "../ops/selection.h"
#include "../ops/sort.h"

namespace mezzo::op {

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
