// Shape rules of the joining ops.
#include "join.h"

#include "../core/checked_size.h"
#include "../core/dispatch.h"
#include "../core/registry.h"
#include "../text/text.h"

namespace mezzo::op {

namespace {

/** Checks that x's sizes equal those of `first` in every dimension but `dim`. */
void require_fit(Inputs in, const Tensor& first, const Tensor& x, int dim) {
  bool fits = x.dim() == first.dim();
  for (int i = 0; fits && i < x.dim(); ++i) fits = i == dim || x.shape()[i] == first.shape()[i];
  if (!fits)
    fail<ShapeError>("cat",
                     {.what = "shapes do not fit",
                      .got = str(str(first), " and ", str(x), " as operand ", &x - in.data()),
                      .expected = str("equal sizes except in dimension ", dim)});
}

}  // namespace

OutSpecs Cat::infer(Inputs in, const Attrs& attrs) {
  if (in.empty())
    fail<ValueError>("cat", {.what = "the list of tensors is empty", .expected = "one or more"});
  const Tensor* first = nullptr;
  for (const Tensor& x : in) {
    if (!x.defined())
      fail<ValueError>("cat", {.what = str("operand ", &x - in.data(), " is undefined"),
                               .expected = "a tensor"});
    if (x.dim() == 0)
      fail<ShapeError>("cat", {.what = "a 0-dim tensor cannot be joined along a dimension",
                               .got = str(str(x), " as operand ", &x - in.data()),
                               .expected = "at least one dimension",
                               .hint = "use stack, or x.view({1})"});
    if (!first && !cat_skips(x.shape())) first = &x;
  }
  if (!first) first = &in[0];
  const int dim = wrap_dim(attrs.dim, first->dim(), "cat");
  Shape shape = first->shape();
  shape[dim] = 0;
  for (const Tensor& x : in) {
    if (cat_skips(x.shape())) continue;
    require_fit(in, *first, x, dim);
    shape[dim] = checked_size(WideSize{shape[dim]} + x.shape()[dim], "cat");
  }
  return {{shape, promoted_dtype(in)}};
}

std::span<OpInfo* const> join_ops() { return infos_of(JoinOps{}); }

}  // namespace mezzo::op
