// Gradients of the ordering ops: g scattered to the indices of the elements. And the composite of
// argsort.
#include "../../tensor/ops/sort.h"

#include "../../tensor/core/dispatch.h"
#include "../ops/create.h"
#include "../ops/gather.h"
#include "../ops/sort.h"

namespace mezzo::op {

namespace {

Tensor scattered(const Saved& saved, std::int64_t dim, const Tensor& indices, const Tensor& g) {
  const Tensor whole = zeros(saved.shape(0), {.dtype = g.dtype(), .device = g.device()});
  return scatter(whole, dim, indices, g);
}

}  // namespace

Grads Sort::backward(const Saved& saved, const Grads& gy) {
  return {scattered(saved, saved.attrs<Sort>().dim, saved.outputs[1], gy[0])};
}

Grads Topk::backward(const Saved& saved, const Grads& gy) {
  return {scattered(saved, saved.attrs<Topk>().dim, saved.outputs[1], gy[0])};
}

Grads Kthvalue::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<Kthvalue>();
  const bool dropped = !attrs.keepdim && saved.shape(0).rank() > 0;
  if (!dropped) return {scattered(saved, attrs.dim, saved.outputs[1], gy[0])};
  const int dim = wrap_dim(attrs.dim, saved.shape(0).rank(), "kthvalue");
  return {scattered(saved, dim, saved.outputs[1].unsqueeze(dim), gy[0].unsqueeze(dim))};
}

std::vector<Tensor> Argsort::composite(Inputs in, const Attrs& attrs) {
  return {sort(in[0], {.dim = attrs.dim, .descending = attrs.descending}).indices};
}

}  // namespace mezzo::op
