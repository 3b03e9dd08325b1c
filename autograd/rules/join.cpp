// The gradient of cat, and the composites of stack, hstack and vstack.
#include "../../tensor/ops/join.h"

#include "../../tensor/core/dispatch.h"
#include "../../tensor/text/text.h"
#include "../ops/create.h"
#include "../ops/join.h"

namespace mezzo::op {

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
