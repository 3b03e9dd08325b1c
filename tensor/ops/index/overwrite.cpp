// Shape rules, gradients and public functions of the ops in overwrite.h.
#include "overwrite.h"

#include "../../core/dispatch.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../create.h"
#include "../elementwise/compare.h"
#include "../elementwise/operators.h"
#include "../reduce/arg_reduce.h"
#include "../reduce/reduce.h"
#include "../reduce/scan.h"
#include "../require.h"
#include "../shape/join.h"
#include "../sort/sort.h"
#include "gather.h"
#include "index.h"
#include "last_write.h"

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

// The gradient of index_copy, and the composites of index_fill, masked_scatter and unique.

Grads IndexCopy::backward(const Saved& saved, const Grads& gy) {
  const int rank = saved.shape(0).rank();
  const int dim = wrap_dim(saved.attrs<IndexCopy>().dim, rank, "index_copy");
  Grads gradients(3);
  if (saved.wants(0)) gradients[0] = index_fill(gy[0], dim, saved.inputs[1], 0.0);
  if (saved.wants(2)) {
    const std::int64_t places = rank == 0 ? 1 : saved.shape(0)[dim];
    const Tensor& index = saved.inputs[1];
    gradients[2] = without_overwritten(index_select(gy[0], dim, index), index, dim, places);
  }
  return gradients;
}

std::vector<Tensor> IndexFill::composite(Inputs in, const Attrs& attrs) {
  const Tensor &x = in[0], &index = in[1];
  return {index_copy(x, attrs.dim, index, filled_rows("index_fill", x, attrs.dim, index, in[2]))};
}

std::vector<Tensor> MaskedScatter::composite(Inputs in, const NoAttrs&) {
  const Tensor &x = in[0], &mask = in[1], &source = in[2];
  if (!mask.defined())
    fail<ValueError>(traits.name, {.what = "the mask is undefined", .expected = "a tensor"});
  if (!source.defined())
    fail<ValueError>(traits.name, {.what = "the source is undefined", .expected = "a tensor"});
  if (mask.dtype() != DType::boolean)
    fail<DtypeError>(traits.name,
                     {.what = "the mask must be bool", .got = str(mask), .expected = "bool"});
  if (source.dtype() != x.dtype())
    fail<DtypeError>(traits.name, {.what = "the source must have the tensor's dtype",
                                   .got = str(str(x), " and source ", str(source)),
                                   .expected = "one dtype",
                                   .hint = "use source.to(dtype)"});
  const Shape shape = broadcast_shapes(x.shape(), mask.shape(), traits.name.data());
  const Tensor places =
      nonzero(mask.expand(shape).reshape({checked_numel(shape, traits.name.data())})).select(1, 0);
  if (places.numel() > source.numel())
    fail<ShapeError>(traits.name, {.what = "the source has fewer elements than the mask selects",
                                   .got = str(str(source), " for ", places.numel(), " positions"),
                                   .expected = "as many, or more"});
  const Tensor taken = source.reshape({source.numel()}).narrow(0, 0, places.numel());
  const Tensor flat = x.expand(shape).reshape({checked_numel(shape, traits.name.data())});
  return {scatter(flat, 0, places, taken).view(shape)};
}

std::vector<Tensor> Unique::composite(Inputs in, const NoAttrs&) {
  const Tensor x = in[0].detach().reshape({in[0].numel()});
  const TensorOptions integers{.dtype = DType::i64, .device = x.device()};
  const std::int64_t n = x.numel();
  if (n == 0) return {x.clone(), zeros(in[0].shape(), integers), zeros({0}, integers)};
  // In sorted order, an element that differs from the one before it starts a group of equal ones.
  const auto [ordered, origin] = sort(x);
  const Tensor first = ones({1}, {.dtype = DType::boolean, .device = x.device()});
  const Tensor starts = cat({first, ne(ordered.narrow(0, 1, n - 1), ordered.narrow(0, 0, n - 1))});
  const Tensor places = nonzero(starts).select(1, 0);
  const Tensor groups = cumsum(starts, 0) - 1;
  const Tensor inverse = scatter(zeros({n}, integers), 0, origin, groups);
  const Tensor ends =
      cat({places.narrow(0, 1, places.numel() - 1), full({1}, static_cast<double>(n), integers)});
  return {index_select(ordered, 0, places), inverse.view(in[0].shape()), ends - places};
}

}  // namespace mezzo::op

namespace mezzo {

Tensor index_copy(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src) {
  return apply_with<op::IndexCopy>({dim}, x, index, src);
}
const Tensor& index_copy_(const Tensor& self, std::int64_t dim, const Tensor& index,
                          const Tensor& src) {
  return apply_in_place<op::IndexCopy>({dim}, self, index, src);
}

Tensor index_fill(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& value) {
  return apply_with<op::IndexFill>({dim}, x, index, value);
}
const Tensor& index_fill_(const Tensor& self, std::int64_t dim, const Tensor& index,
                          const Tensor& value) {
  require_defined("index_fill_", self);
  return index_copy_(self, dim, index, op::filled_rows("index_fill_", self, dim, index, value));
}

Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source) {
  return apply<op::MaskedScatter>(x, mask, source);
}

UniqueResult unique(const Tensor& x, const UniqueOptions& options) {
  const NoGrad no_grad;
  auto all = apply_all<op::Unique>({}, x);
  return {all[0], options.return_inverse ? all[1] : Tensor{},
          options.return_counts ? all[2] : Tensor{}};
}

}  // namespace mezzo
