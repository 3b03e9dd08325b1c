// Shape rules of tril and triu.
#include "triangle.h"

#include "../core/registry.h"
#include "../text/text.h"

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

}  // namespace mezzo::op
