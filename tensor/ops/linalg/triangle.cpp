// Shape rules and gradients of the ops in triangle.h.
#include "triangle.h"

#include "../../core/dispatch.h"
#include "../../core/registry.h"
#include "../../text/text.h"

namespace mezzo::op {

namespace {

OutSpecs same_matrices(const char* op, const Tensor& x) {
  if (x.dim() < 2)
    fail<ShapeError>(op,
                     {.what = "not a matrix", .got = str(x), .expected = "at least 2 dimensions"});
  return {{x.shape(), x.dtype()}};
}

}  // namespace

OutSpecs Tril::infer(Inputs in, const Attrs&) { return same_matrices("tril", in[0]); }

OutSpecs Triu::infer(Inputs in, const Attrs&) { return same_matrices("triu", in[0]); }

std::span<OpInfo* const> triangle_ops() { return infos_of(TriangleOps{}); }

// Gradients of tril and triu: the same triangle of g.

Grads Tril::backward(const Saved& saved, const Grads& gy) {
  return {apply_with<Tril>(saved.attrs<Tril>(), gy[0])};
}

Grads Triu::backward(const Saved& saved, const Grads& gy) {
  return {apply_with<Triu>(saved.attrs<Triu>(), gy[0])};
}

}  // namespace mezzo::op

namespace mezzo {

Tensor tril(const Tensor& x, std::int64_t diagonal) { return apply_with<op::Tril>({diagonal}, x); }

Tensor triu(const Tensor& x, std::int64_t diagonal) { return apply_with<op::Triu>({diagonal}, x); }

}  // namespace mezzo
