// Shape rules, gradients and public functions of the ops in index.h.
#include "index.h"

#include "../../core/checked_size.h"
#include "../../core/dispatch.h"
#include "../../core/error.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../create.h"
#include "../elementwise/operators.h"
#include "gather.h"
#include "last_write.h"

namespace mezzo::op {

IndexedDims::IndexedDims(std::uint32_t dims, int rank) {
  int first = rank, last = -1;
  for (int i = 0; i < rank; ++i)
    if (dims >> i & 1) {
      first = std::min(first, i);
      last = i;
      indexed.push_back(i);
    }
  const bool neighbours = last - first + 1 == indexed.rank();
  for (int i = 0; i < rank; ++i)
    if (!(dims >> i & 1)) (neighbours && i < first ? before : after).push_back(i);
}

Shape IndexedDims::result(const Shape& x, const Shape& positions) const {
  Shape out;
  for (const std::int64_t d : before) out.push_back(x[d]);
  for (const std::int64_t size : positions) out.push_back(size);
  for (const std::int64_t d : after) out.push_back(x[d]);
  return out;
}

namespace {

void require_rows_index(const char* op, const Tensor& index) {
  require_index_dtype(op, index);
  if (index.dim() > 1)
    fail<ShapeError>(op, {.what = "the index has too many dimensions",
                          .got = str(index),
                          .expected = "1 dimension, or none",
                          .hint = "use index(x, {...})"});
}

Shape with_rows(const Tensor& x, int dim, std::int64_t rows) {
  Shape shape = x.shape();
  if (x.dim() > 0) shape[dim] = rows;
  return shape;
}

}  // namespace

OutSpecs IndexSelect::infer(Inputs in, const Attrs& attrs) {
  require_rows_index("index_select", in[1]);
  const int dim = wrap_dim(attrs.dim, in[0].dim(), "index_select");
  if (in[0].dim() == 0 && in[1].numel() != 1)
    fail<ShapeError>("index_select", {.what = "a 0-dim tensor has one element to select",
                                      .got = str(str(in[0]), " and index ", str(in[1])),
                                      .expected = "an index of one element"});
  return {{with_rows(in[0], dim, in[1].numel()), in[0].dtype()}};
}

OutSpecs IndexAdd::infer(Inputs in, const Attrs& attrs) {
  require_rows_index("index_add", in[1]);
  const int dim = wrap_dim(attrs.dim, in[0].dim(), "index_add");
  if (!in[2].defined())
    fail<ValueError>("index_add", {.what = "the source is undefined", .expected = "a tensor"});
  const bool fits = in[2].shape() == with_rows(in[0], dim, in[1].numel()) &&
                    (in[0].dim() > 0 || in[1].numel() == 1);
  if (!fits)
    fail<ShapeError>("index_add",
                     {.what = "the source does not fit",
                      .got = str("source ", in[2], " for ", in[0], " and index ", in[1]),
                      .expected = str("the tensor's sizes, and the index's in dimension ", dim)});
  if (in[2].dtype() != in[0].dtype())
    fail<DtypeError>("index_add", {.what = "the source must have the tensor's dtype",
                                   .got = str(str(in[0]), " and source ", str(in[2])),
                                   .expected = "one dtype",
                                   .hint = "use src.to(dtype)"});
  if (!is_floating(in[0].dtype()) && !fits_i64(attrs.alpha))
    fail<ValueError>("index_add", {.what = "alpha must be a whole number for integers",
                                   .got = str(attrs.alpha),
                                   .expected = str("a whole number for ", in[0])});
  return {{in[0].shape(), in[0].dtype()}};
}

OutSpecs IndexPositions::infer(Inputs in, const Attrs& attrs) {
  Shape shape;
  for (const Tensor& index : in.subspan(1)) {
    require_index_dtype(attrs.op, index);
    shape = broadcast_shapes(shape, index.shape(), attrs.op);
  }
  return {{shape, DType::i64}};
}

OutSpecs Index::infer(Inputs in, const Attrs& attrs) {
  require_index_dtype("index", in[1]);
  return {
      {IndexedDims(attrs.dims, in[0].dim()).result(in[0].shape(), in[1].shape()), in[0].dtype()}};
}

OutSpecs IndexPut::infer(Inputs in, const Attrs& attrs) {
  require_index_dtype("index_put", in[1]);
  const Shape place = IndexedDims(attrs.dims, in[0].dim()).result(in[0].shape(), in[1].shape());
  if (!in[2].defined())
    fail<ValueError>("index_put", {.what = "the values are undefined", .expected = "a tensor"});
  if (!is_expandable(in[2].shape(), place))
    fail<ShapeError>("index_put",
                     {.what = "the values do not broadcast to the indexed elements",
                      .got = str("values ", in[2], " for a place of shape ", place, " in ", in[0]),
                      .expected = "sizes equal or 1"});
  const Tensor valued[] = {in[0], in[2]};
  return {{in[0].shape(), promoted_dtype(valued)}};
}

OutSpecs Nonzero::infer(Inputs in, const NoAttrs&) { return {{{0, in[0].dim()}, DType::i64}}; }
OutSpecs MaskedValues::infer(Inputs in, const NoAttrs&) { return {{{0}, in[0].dtype()}}; }

std::span<OpInfo* const> index_ops() { return infos_of(IndexOps{}); }

// Gradients of the ops that index whole rows, and the composite of masked_select.

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
  const Tensor x = in[0].expand(shape), mask = in[1].expand(shape).reshape({-1});
  if (!grad_enabled() || !x.requires_grad()) return {apply<MaskedValues>(x, mask)};
  return {index_select(x.reshape({-1}), 0, nonzero(mask).select(1, 0))};
}

}  // namespace mezzo::op

namespace mezzo {

Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index) {
  return apply_with<op::IndexSelect>({dim}, x, index);
}

Tensor index_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src,
                 const IndexAddOptions& options) {
  return apply_with<op::IndexAdd>({dim, options.alpha}, x, index, src);
}
const Tensor& index_add_(const Tensor& self, std::int64_t dim, const Tensor& index,
                         const Tensor& src, const IndexAddOptions& options) {
  return apply_in_place<op::IndexAdd>({dim, options.alpha}, self, index, src);
}

namespace {

/** The indexed dimensions, as a bit mask, and the positions in them. */
struct Places {
  std::uint32_t dims = 0;
  Tensor positions;
};

/** Appends the positions that a mask selects: one index tensor per dimension it covers. */
void append_mask(const char* op, const Tensor& x, const Tensor& mask, int first,
                 std::vector<Tensor>& operands) {
  bool fits = mask.dim() > 0 && first + mask.dim() <= x.dim();
  for (int i = 0; fits && i < mask.dim(); ++i) fits = mask.shape()[i] == x.shape()[first + i];
  if (!fits)
    fail<ShapeError>(op, {.what = "the mask does not fit the dimensions it indexes",
                          .got = str("mask ", mask, " at dimension ", first, " of ", x),
                          .expected = "equal sizes"});
  const Tensor places = nonzero(mask);
  for (int i = 0; i < mask.dim(); ++i) operands.push_back(places.select(1, i));
}

Places find_places(const char* op, const Tensor& x, const std::vector<Tensor>& indices) {
  const ApiScope called(op);
  const NoGradNoCasts plain_ops;
  std::vector<Tensor> operands{x};
  Places places;
  int dim = 0;
  for (const Tensor& index : indices) {
    const bool mask = index.defined() && index.dtype() == DType::boolean;
    const int covered = mask ? index.dim() : 1;
    if (mask)
      append_mask(op, x, index, dim, operands);
    else if (index.defined())
      operands.push_back(index);
    if (index.defined()) places.dims |= ((1u << covered) - 1) << dim;
    dim += covered;
    if (dim > x.dim())
      fail<ShapeError>(op, {.what = "more indices than dimensions",
                            .got = str(indices.size(), " indices for ", x),
                            .expected = str("at most ", x.dim())});
  }
  if (places.dims == 0)
    fail<ValueError>(op, {.what = "nothing is indexed",
                          .got = str(indices.size(), " undefined tensors"),
                          .expected = "at least one index tensor"});
  places.positions = apply_list<op::IndexPositions>({places.dims, op}, operands);
  return places;
}

}  // namespace

Tensor index(const Tensor& x, const std::vector<Tensor>& indices) {
  const Places places = find_places("index", x, indices);
  return apply_with<op::Index>({places.dims}, x, places.positions);
}

Tensor index_put(const Tensor& x, const std::vector<Tensor>& indices, const Tensor& values,
                 const IndexPutOptions& options) {
  const Places places = find_places("index_put", x, indices);
  return apply_with<op::IndexPut>({places.dims, options.accumulate}, x, places.positions, values);
}
const Tensor& index_put_(const Tensor& self, const std::vector<Tensor>& indices,
                         const Tensor& values, const IndexPutOptions& options) {
  const Places places = find_places("index_put_", self, indices);
  return apply_in_place<op::IndexPut>({places.dims, options.accumulate}, self, places.positions,
                                      values);
}

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  return apply<op::MaskedSelect>(x, mask);
}

Tensor nonzero(const Tensor& x) { return apply<op::Nonzero>(x); }

}  // namespace mezzo
