// Shape rules and gradients of the ops in cross.h.
#include "cross.h"

#include "../../core/dispatch.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../matmul/contraction.h"
#include "../wide.h"

namespace mezzo::op {

namespace {

/** Returns component `i` of the vectors along a dimension counted from the last one. */
Tensor component(const Tensor& x, int from_last, std::int64_t i) {
  const int dim = x.dim() - 1 - from_last;
  Shape shape = x.shape();
  Strides strides = x.strides();
  const std::int64_t offset = x.impl()->offset + i * strides[dim];
  shape[dim] = 1;
  return alias(x, shape, strides, offset);
}

}  // namespace

CrossComponents cross_components(Inputs in, const Tensor& out, std::int64_t dim) {
  const int from_last = out.dim() - 1 - wrap_dim(dim, out.dim(), "cross");
  CrossComponents all;
  for (std::size_t i = 0; i < 3; ++i) {
    all.operands[i] = component(in[0], from_last, static_cast<std::int64_t>(i));
    all.operands[3 + i] = component(in[1], from_last, static_cast<std::int64_t>(i));
    all.results[i] = component(out, from_last, static_cast<std::int64_t>(i));
  }
  return all;
}

OutSpecs Cross::infer(Inputs in, const Attrs& attrs) {
  if (!in[1].defined())
    fail<ValueError>("cross", {.what = "operand 1 is undefined", .expected = "a tensor"});
  const DType dtype = promoted_dtype(in);
  if (dtype == DType::boolean)
    fail<DtypeError>("cross", {.what = "not defined for bool",
                               .got = str(in),
                               .expected = "numbers",
                               .hint = "use x.to(i64)"});
  const Shape shape = broadcast_shapes(in[0].shape(), in[1].shape(), "cross");
  const int dim = wrap_dim(attrs.dim, shape.rank(), "cross");
  for (const Tensor& x : in) {
    const int own = dim - (shape.rank() - x.dim());
    if (own < 0 || x.shape()[own] != 3)
      fail<ShapeError>("cross", {.what = str("dimension ", dim, " of the result must have size 3"),
                                 .got = str(in),
                                 .expected = "size 3 in both operands"});
  }
  return {{shape, dtype}};
}

std::span<OpInfo* const> cross_ops() { return infos_of(CrossOps{}); }

// The gradient of the cross product.

Grads Cross::backward(const Saved& saved, const Grads& gy) {
  const CrossOptions options{.dim = saved.attrs<Cross>().dim};
  const Tensor g = wide(gy[0]);
  Grads grads(2);
  if (saved.wants(0)) grads[0] = cross(wide(saved.inputs[1]), g, options);
  if (saved.wants(1)) grads[1] = cross(g, wide(saved.inputs[0]), options);
  return grads;
}

}  // namespace mezzo::op

namespace mezzo {

Tensor cross(const Tensor& a, const Tensor& b, const CrossOptions& options) {
  return apply_with<op::Cross>({options.dim}, a, b);
}

}  // namespace mezzo
