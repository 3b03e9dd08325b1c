// Shape rules, gradients and public functions of the ops in join.h.
#include "join.h"

#include "../../core/checked_size.h"
#include "../../core/dispatch.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../create.h"

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

// The gradient of cat, and the composites of stack, hstack and vstack.

Grads Cat::backward(const Saved& saved, const Grads& gy) {
  const int dim = wrap_dim(saved.attrs<Cat>().dim, gy[0].dim(), "cat");
  Grads gradients(saved.input_meta.size());
  std::int64_t start = 0;
  for (std::size_t i = 0; i < saved.input_meta.size(); ++i) {
    const Shape& shape = saved.input_meta[i].shape;
    if (cat_skips(shape)) {
      gradients[i] = zeros(shape, {.dtype = saved.input_meta[i].dtype, .device = gy[0].device()});
      continue;
    }
    if (saved.wanted[i]) gradients[i] = gy[0].narrow(dim, start, shape[dim]);
    start += shape[dim];
  }
  return gradients;
}

std::vector<Tensor> Stack::composite(Inputs in, const Attrs& attrs) {
  if (in.empty())
    fail<ValueError>("stack", {.what = "the list of tensors is empty", .expected = "one or more"});
  const int dim = wrap_dim(attrs.dim, in[0].dim() + 1, "stack");
  std::vector<Tensor> layers;
  layers.reserve(in.size());
  for (const Tensor& x : in) {
    if (!x.defined())
      fail<ValueError>("stack", {.what = str("operand ", &x - in.data(), " is undefined"),
                                 .expected = "a tensor"});
    if (!(x.shape() == in[0].shape()))
      fail<ShapeError>("stack",
                       {.what = "shapes differ",
                        .got = str(str(in[0]), " and ", str(x), " as operand ", &x - in.data()),
                        .expected = "equal shapes"});
    layers.push_back(x.unsqueeze(dim));
  }
  return {cat(layers, dim)};
}

namespace {

/** Returns the tensors with at least `rank` dimensions; those that are added come first. */
std::vector<Tensor> of_rank(const char* op, Inputs in, int rank) {
  if (in.empty())
    fail<ValueError>(op, {.what = "the list of tensors is empty", .expected = "one or more"});
  std::vector<Tensor> out;
  for (const Tensor& x : in) {
    if (!x.defined())
      fail<ValueError>(
          op, {.what = str("operand ", &x - in.data(), " is undefined"), .expected = "a tensor"});
    out.push_back(x);
    while (out.back().dim() < rank) out.back() = out.back().unsqueeze(0);
  }
  return out;
}

}  // namespace

std::vector<Tensor> Hstack::composite(Inputs in, const NoAttrs&) {
  const std::vector<Tensor> columns = of_rank("hstack", in, 1);
  return {cat(columns, columns[0].dim() == 1 ? 0 : 1)};
}

std::vector<Tensor> Vstack::composite(Inputs in, const NoAttrs&) {
  return {cat(of_rank("vstack", in, 2), 0)};
}

}  // namespace mezzo::op

namespace mezzo {

Tensor cat(const std::vector<Tensor>& tensors, std::int64_t dim) {
  return apply_list<op::Cat>({dim}, tensors);
}

Tensor stack(const std::vector<Tensor>& tensors, std::int64_t dim) {
  return apply_list<op::Stack>({dim}, tensors);
}

Tensor hstack(const std::vector<Tensor>& tensors) { return apply_list<op::Hstack>({}, tensors); }

Tensor vstack(const std::vector<Tensor>& tensors) { return apply_list<op::Vstack>({}, tensors); }

}  // namespace mezzo
