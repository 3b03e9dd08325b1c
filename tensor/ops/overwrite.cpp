// Shape rule of index_copy.
#include "overwrite.h"

#include "../core/registry.h"
#include "../text/text.h"
#include "gather.h"

namespace mezzo::op {

OutSpecs IndexCopy::infer(Inputs in, const Attrs& attrs) {
  const Tensor &x = in[0], &index = in[1], &src = in[2];
  require_index_dtype("index_copy", index);
  const int dim = wrap_dim(attrs.dim, x.dim(), "index_copy");
  if (index.dim() > 1)
    fail<ShapeError>("index_copy", {.what = "the index has too many dimensions",
                                    .got = str(index),
                                    .expected = "1 dimension, or none"});
  Shape rows = x.shape();
  if (x.dim() > 0) rows[dim] = index.numel();
  if (!src.defined())
    fail<ValueError>("index_copy", {.what = "the source is undefined", .expected = "a tensor"});
  const bool fits = src.shape() == rows && (x.dim() > 0 || index.numel() == 1);
  if (!fits)
    fail<ShapeError>("index_copy",
                     {.what = "the source does not fit",
                      .got = str("source ", src, " for ", x, " and index ", index),
                      .expected = str("the tensor's sizes, and the index's in dimension ", dim)});
  if (src.dtype() != x.dtype())
    fail<DtypeError>("index_copy", {.what = "the source must have the tensor's dtype",
                                    .got = str(str(x), " and source ", str(src)),
                                    .expected = "one dtype",
                                    .hint = "use src.to(dtype)"});
  return {{x.shape(), x.dtype()}};
}

Tensor filled_rows(std::string_view op, const Tensor& x, std::int64_t dim, const Tensor& index,
                   const Tensor& value) {
  require_index_dtype(op, index);
  const int d = wrap_dim(dim, x.dim(), std::string(op).c_str());
  if (!value.defined())
    fail<ValueError>(op,
                     {.what = "the value is undefined", .expected = "a number or a 0-dim tensor"});
  if (value.dim() != 0)
    fail<ShapeError>(op, {.what = "the value must be a single number",
                          .got = str(value),
                          .expected = "a number or a 0-dim tensor"});
  Shape rows = x.shape();
  if (x.dim() > 0) rows[d] = index.numel();
  return value.to(x.dtype()).to(x.device()).expand(rows);
}

std::span<OpInfo* const> overwrite_ops() { return infos_of(OverwriteOps{}); }

}  // namespace mezzo::op
