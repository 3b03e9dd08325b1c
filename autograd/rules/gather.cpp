// Gradients of gather and scatter, and the composite of take_along_dim.
#include "../../tensor/ops/gather.h"

#include "../../tensor/core/dispatch.h"
#include "../ops/create.h"
#include "../ops/gather.h"

namespace mezzo::op {

namespace {

Tensor zeros_of(const Shape& shape, const Tensor& like) {
  return zeros(shape, {.dtype = like.dtype(), .device = like.device()});
}

/** Returns zeros with g at the start of each dimension: the gradient of a source that is larger
 *  than the index. */
Tensor in_corner(const Tensor& g, const Shape& shape) {
  if (g.shape() == shape) return g;
  const Tensor whole = zeros_of(shape, g);
  if (g.numel() == 0) return whole;
  Tensor corner = whole;
  for (int i = 0; i < shape.rank(); ++i) corner = corner.narrow(i, 0, g.shape()[i]);
  corner.copy_(g);
  return whole;
}

}  // namespace

Grads Gather::backward(const Saved& saved, const Grads& gy) {
  const std::int64_t dim = saved.attrs<Gather>().dim;
  return {scatter_add(zeros_of(saved.shape(0), gy[0]), dim, saved.inputs[1], gy[0])};
}

Grads Scatter::backward(const Saved& saved, const Grads& gy) {
  const std::int64_t dim = saved.attrs<Scatter>().dim;
  Grads gradients(3);
  if (saved.wants(0)) gradients[0] = scatter(gy[0], dim, saved.inputs[1], 0.0);
  if (saved.wants(2)) gradients[2] = in_corner(gather(gy[0], dim, saved.inputs[1]), saved.shape(2));
  return gradients;
}

Grads ScatterAdd::backward(const Saved& saved, const Grads& gy) {
  const std::int64_t dim = saved.attrs<ScatterAdd>().dim;
  Grads gradients{gy[0], {}, {}};
  if (saved.wants(2)) gradients[2] = in_corner(gather(gy[0], dim, saved.inputs[1]), saved.shape(2));
  return gradients;
}

std::vector<Tensor> TakeAlongDim::composite(Inputs in, const Attrs& attrs) {
  const Tensor &x = in[0], &index = in[1];
  require_index_dtype("take_along_dim", index);
  const int dim = wrap_dim(attrs.dim, x.dim(), "take_along_dim");
  if (x.dim() != index.dim())
    fail<ShapeError>("take_along_dim",
                     {.what = "numbers of dimensions differ",
                      .got = str(in),
                      .expected = "as many dimensions in the index as in the tensor"});
  if (x.dim() == 0) return {gather(x, dim, index)};
  // Along dim the tensors do not broadcast.
  Shape x_shape = x.shape(), index_shape = index.shape();
  x_shape[dim] = index_shape[dim] = 1;
  const Shape common = broadcast_shapes(x_shape, index_shape, "take_along_dim");
  x_shape = index_shape = common;
  x_shape[dim] = x.shape()[dim];
  index_shape[dim] = index.shape()[dim];
  return {gather(x.expand(x_shape), dim, index.expand(index_shape))};
}

}  // namespace mezzo::op
