// Shape rules of the ops that index whole rows.
#include "index.h"

#include "../core/checked_size.h"
#include "../core/dispatch.h"
#include "../core/registry.h"
#include "../text/text.h"
#include "gather.h"

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

OutSpecs Nonzero::infer(Inputs in, const Attrs& attrs) {
  return {{{attrs.count, in[0].dim()}, DType::i64}};
}

std::span<OpInfo* const> index_ops() { return infos_of(IndexOps{}); }

}  // namespace mezzo::op
