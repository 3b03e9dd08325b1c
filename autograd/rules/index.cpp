// Gradients of the ops that index whole rows, and the composite of masked_select.
#include "../../tensor/ops/index.h"

#include "../../tensor/core/dispatch.h"
#include "../ops/create.h"
#include "../ops/index.h"
#include "../ops/operators.h"
#include "last_write.h"

namespace mezzo::op {

namespace {

Tensor zeros_of(const Shape& shape, const Tensor& like) {
  return zeros(shape, {.dtype = like.dtype(), .device = like.device()});
}

}  // namespace

Grads IndexSelect::backward(const Saved& saved, const Grads& gy) {
  const std::int64_t dim = saved.attrs<IndexSelect>().dim;
  return {index_add(zeros_of(saved.shape(0), gy[0]), dim, saved.inputs[1], gy[0])};
}

Grads IndexAdd::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<IndexAdd>();
  Grads gradients{gy[0], {}, {}};
  if (saved.wants(2)) {
    gradients[2] = index_select(gy[0], attrs.dim, saved.inputs[1]);
    if (attrs.alpha != 1) gradients[2] = gradients[2] * attrs.alpha;
  }
  return gradients;
}

Grads Index::backward(const Saved& saved, const Grads& gy) {
  const IndexPut::Attrs attrs{saved.attrs<Index>().dims, true};
  return {apply_with<IndexPut>(attrs, zeros_of(saved.shape(0), gy[0]), saved.inputs[1], gy[0])};
}

Grads IndexPut::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<IndexPut>();
  Grads gradients{gy[0], {}, {}};
  if (saved.wants(0) && !attrs.accumulate)
    gradients[0] = apply_with<IndexPut>(attrs, gy[0], saved.inputs[1], zeros_of({}, gy[0]));
  if (saved.wants(2)) gradients[2] = apply_with<Index>({attrs.dims}, gy[0], saved.inputs[1]);
  if (saved.wants(2) && !attrs.accumulate) {
    const Shape& shape = saved.shape(0);
    const IndexedDims dims(attrs.dims, shape.rank());
    std::int64_t places = 1;
    for (const std::int64_t d : dims.indexed) places *= shape[d];
    gradients[2] = without_overwritten(gradients[2], saved.inputs[1], dims.before.rank(), places);
  }
  return gradients;
}

std::vector<Tensor> MaskedSelect::composite(Inputs in, const NoAttrs&) {
  const Shape shape = broadcast_shapes(in[0].shape(), in[1].shape(), "masked_select");
  if (in[1].dtype() != DType::boolean)
    fail<DtypeError>("masked_select",
                     {.what = "the mask must be bool", .got = str(in[1]), .expected = "bool"});
  const Tensor places = nonzero(in[1].expand(shape).reshape({-1}));
  return {index_select(in[0].expand(shape).reshape({-1}), 0, places.select(1, 0))};
}

}  // namespace mezzo::op
