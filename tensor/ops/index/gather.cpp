// Shape rules, gradients and public functions of the ops in gather.h.
#include "gather.h"

#include "../../core/dispatch.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../create.h"

namespace mezzo::op {

void require_index_dtype(std::string_view op, const Tensor& index) {
  if (!index.defined())
    fail<ValueError>(op, {.what = "the index is undefined", .expected = "a tensor"});
  const bool fits = index.dtype() == DType::i64 || index.dtype() == DType::i32;
  if (!fits)
    fail<DtypeError>(op, {.what = "indices must be integers",
                          .got = str(index),
                          .expected = "i64 or i32",
                          .hint = "use index.to(i64)"});
}

void fail_index(const IndexRange& range, std::int64_t at, std::int64_t value) {
  Shape place = range.index;
  for (int i = place.rank() - 1; i >= 0; --i) {
    place[i] = at % range.index[i];
    at /= range.index[i];
  }
  const std::string x = str(name(range.x.dtype), range.x.shape, "@", range.x.device);
  fail<IndexError>(range.op,
                   {.what = "index out of range",
                    .got = str(value, " at index", place, " into dimension ", range.dim, " of ", x),
                    .expected = range.size == 0 ? std::string("no index, the dimension is empty")
                                                : str(range.lowest, "..", range.size - 1)});
}

namespace {

/** Checks that the index has x's rank and is no larger than x, except along dim. */
void require_index_fits(const char* op, const Tensor& x, const Tensor& index, int dim) {
  bool fits = index.dim() == x.dim();
  for (int i = 0; fits && i < x.dim(); ++i) fits = i == dim || index.shape()[i] <= x.shape()[i];
  if (!fits)
    fail<ShapeError>(
        op, {.what = "the index does not fit the tensor",
             .got = str("index ", index, " for ", x),
             .expected = str("as many dimensions, and sizes no larger except in dimension ", dim)});
}

void require_source_fits(const char* op, const Tensor& index, const Tensor& src) {
  if (!src.defined())
    fail<ValueError>(op, {.what = "the source is undefined", .expected = "a tensor"});
  bool fits = src.dim() == index.dim();
  for (int i = 0; fits && i < index.dim(); ++i) fits = index.shape()[i] <= src.shape()[i];
  if (!fits)
    fail<ShapeError>(op, {.what = "the source does not cover the index",
                          .got = str("source ", src, " and index ", index),
                          .expected = "as many dimensions, and sizes no smaller than the index's"});
}

void require_scatter(const char* op, Inputs in, std::int64_t dim) {
  require_index_dtype(op, in[1]);
  const int d = wrap_dim(dim, in[0].dim(), op);
  if (in[1].numel() == 0) return;
  require_index_fits(op, in[0], in[1], d);
  require_source_fits(op, in[1], in[2]);
}

}  // namespace

OutSpecs Gather::infer(Inputs in, const Attrs& attrs) {
  require_index_dtype("gather", in[1]);
  const int dim = wrap_dim(attrs.dim, in[0].dim(), "gather");
  if (in[1].numel() != 0) require_index_fits("gather", in[0], in[1], dim);
  return {{in[1].shape(), in[0].dtype()}};
}

OutSpecs Scatter::infer(Inputs in, const Attrs& attrs) {
  require_scatter("scatter", in, attrs.dim);
  if (in[2].dtype() != in[0].dtype())
    fail<DtypeError>("scatter", {.what = "the source must have the tensor's dtype",
                                 .got = str(str(in[0]), " and source ", str(in[2])),
                                 .expected = "one dtype",
                                 .hint = "use src.to(dtype)"});
  return {{in[0].shape(), in[0].dtype()}};
}

OutSpecs ScatterAdd::infer(Inputs in, const Attrs& attrs) {
  require_scatter("scatter_add", in, attrs.dim);
  const Tensor valued[] = {in[0], in[2]};
  return {{in[0].shape(), promoted_dtype(valued)}};
}

std::span<OpInfo* const> gather_ops() { return infos_of(GatherOps{}); }

// Gradients of gather and scatter, and the composite of take_along_dim.

namespace {

Tensor zeros_shaped(const Shape& shape, const Tensor& like) {
  return zeros(shape, {.dtype = like.dtype(), .device = like.device()});
}

/** Returns zeros with g at the start of each dimension: the gradient of a source that is larger
 *  than the index. */
Tensor in_corner(const Tensor& g, const Shape& shape) {
  if (g.shape() == shape) return g;
  const Tensor whole = zeros_shaped(shape, g);
  if (g.numel() == 0) return whole;
  Tensor corner = whole;
  for (int i = 0; i < shape.rank(); ++i) corner = corner.narrow(i, 0, g.shape()[i]);
  corner.copy_(g);
  return whole;
}

}  // namespace

Grads Gather::backward(const Saved& saved, const Grads& gy) {
  const std::int64_t dim = saved.attrs<Gather>().dim;
  return {scatter_add(zeros_shaped(saved.shape(0), gy[0]), dim, saved.inputs[1], gy[0])};
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

namespace mezzo {

namespace {

/** Returns one value in x's dtype, expanded to the index's shape. */
Tensor repeated(double value, const Tensor& x, const Tensor& index) {
  op::require_index_dtype("scatter", index);
  return full({}, value, {.dtype = x.dtype(), .device = x.device()}).expand(index.shape());
}

}  // namespace

Tensor gather(const Tensor& x, std::int64_t dim, const Tensor& index) {
  return apply_with<op::Gather>({dim}, x, index);
}

Tensor take_along_dim(const Tensor& x, const Tensor& index, std::optional<std::int64_t> dim) {
  if (dim) return apply_with<op::TakeAlongDim>({*dim}, x, index);
  return apply_with<op::TakeAlongDim>({0}, x.reshape({-1}), index.reshape({-1}));
}

Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src) {
  return apply_with<op::Scatter>({dim}, x, index, src);
}
Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, double value) {
  return scatter(x, dim, index, repeated(value, x, index));
}
const Tensor& scatter_(const Tensor& self, std::int64_t dim, const Tensor& index,
                       const Tensor& src) {
  return apply_in_place<op::Scatter>({dim}, self, index, src);
}
const Tensor& scatter_(const Tensor& self, std::int64_t dim, const Tensor& index, double value) {
  return scatter_(self, dim, index, repeated(value, self, index));
}

Tensor scatter_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src) {
  return apply_with<op::ScatterAdd>({dim}, x, index, src);
}
const Tensor& scatter_add_(const Tensor& self, std::int64_t dim, const Tensor& index,
                           const Tensor& src) {
  return apply_in_place<op::ScatterAdd>({dim}, self, index, src);
}

}  // namespace mezzo
