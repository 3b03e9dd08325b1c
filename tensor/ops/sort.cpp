// Shape rules of the ordering ops.
#include "sort.h"

#include "../core/dispatch.h"
#include "../core/registry.h"
#include "../text/text.h"

namespace mezzo::op {

namespace {

/** Checks k. Errors: ValueError unless lowest <= k <= the size of dim, which is 1 for a 0-dim
 *  tensor. */
void require_k(const char* op, const Tensor& x, int dim, std::int64_t k, std::int64_t lowest) {
  const std::int64_t length = x.dim() == 0 ? 1 : x.shape()[dim];
  if (k < lowest || k > length)
    fail<ValueError>(op, {.what = "k is out of range",
                          .got = str("k = ", k, " along dimension ", dim, " of ", x),
                          .expected = length < lowest ? std::string("a dimension that is not empty")
                                                      : str(lowest, "..", length)});
}

}  // namespace

OutSpecs Sort::infer(Inputs in, const Attrs& attrs) {
  wrap_dim(attrs.dim, in[0].dim(), "sort");
  return {{in[0].shape(), in[0].dtype()}, {in[0].shape(), DType::i64}};
}

OutSpecs Topk::infer(Inputs in, const Attrs& attrs) {
  const int dim = wrap_dim(attrs.dim, in[0].dim(), "topk");
  require_k("topk", in[0], dim, attrs.k, 0);
  Shape shape = in[0].shape();
  if (shape.rank() > 0)
    shape[dim] = attrs.k;
  else if (attrs.k == 0)
    shape = {0};
  return {{shape, in[0].dtype()}, {shape, DType::i64}};
}

OutSpecs Kthvalue::infer(Inputs in, const Attrs& attrs) {
  const int dim = wrap_dim(attrs.dim, in[0].dim(), "kthvalue");
  require_k("kthvalue", in[0], dim, attrs.k, 1);
  Shape shape = in[0].shape();
  if (shape.rank() > 0 && attrs.keepdim)
    shape[dim] = 1;
  else if (shape.rank() > 0)
    shape.erase(dim);
  return {{shape, in[0].dtype()}, {shape, DType::i64}};
}

std::span<OpInfo* const> sort_ops() { return infos_of(SortOps{}); }

}  // namespace mezzo::op
