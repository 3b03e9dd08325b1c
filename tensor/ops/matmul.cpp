// Shape rules of the matrix products.
#include "matmul.h"

#include "../core/dispatch.h"
#include "../core/registry.h"
#include "../text/text.h"
#include "require.h"

namespace mezzo::op {

namespace {

void require_rank(const char* op, Inputs in, std::size_t i, int rank, const char* what) {
  if (in[i].dim() != rank)
    fail<ShapeError>(op, {.what = str("operand ", i, " must be ", what),
                          .got = str(in.subspan(0, 2)),
                          .expected = str(rank, rank == 1 ? " dimension" : " dimensions"),
                          .hint = "matmul takes any number of dimensions"});
}

void require_inner(const char* op, Inputs in, std::int64_t left, std::int64_t right) {
  if (left != right)
    fail<ShapeError>(op, {.what = "inner sizes differ",
                          .got = str(in.subspan(0, 2)),
                          .expected = str("equal sizes, not ", left, " and ", right)});
}

}  // namespace

OutSpecs Mm::infer(Inputs in, const NoAttrs&) {
  require_rank("mm", in, 0, 2, "a matrix");
  require_rank("mm", in, 1, 2, "a matrix");
  require_inner("mm", in, in[0].shape()[1], in[1].shape()[0]);
  return {{{in[0].shape()[0], in[1].shape()[1]}, require_one_number_dtype("mm", in)}};
}

OutSpecs Bmm::infer(Inputs in, const NoAttrs&) {
  require_rank("bmm", in, 0, 3, "a list of matrices");
  require_rank("bmm", in, 1, 3, "a list of matrices");
  if (in[0].shape()[0] != in[1].shape()[0])
    fail<ShapeError>("bmm", {.what = "batch sizes differ",
                             .got = str(in),
                             .expected = "equal first sizes",
                             .hint = "matmul broadcasts"});
  require_inner("bmm", in, in[0].shape()[2], in[1].shape()[1]);
  return {{{in[0].shape()[0], in[0].shape()[1], in[1].shape()[2]},
           require_one_number_dtype("bmm", in)}};
}

OutSpecs Mv::infer(Inputs in, const NoAttrs&) {
  require_rank("mv", in, 0, 2, "a matrix");
  require_rank("mv", in, 1, 1, "a vector");
  require_inner("mv", in, in[0].shape()[1], in[1].shape()[0]);
  return {{{in[0].shape()[0]}, require_one_number_dtype("mv", in)}};
}

OutSpecs MatMul::infer(Inputs in, const Attrs&) {
  const Shape &a = in[0].shape(), &b = in[1].shape();
  if (a.rank() == 0 || b.rank() == 0)
    fail<ShapeError>("matmul", {.what = "a 0-dim tensor is neither matrix nor vector",
                                .got = str(in),
                                .expected = "at least one dimension each",
                                .hint = "use a * b"});
  require_inner("matmul", in, a.back(), b.rank() == 1 ? b[0] : b[b.rank() - 2]);
  const DType dtype = require_one_number_dtype("matmul", in);
  const auto batch_of = [](const Shape& x) {
    Shape batch = x;
    for (int i = 0; i < 2 && batch.rank() > 0; ++i) batch.erase(batch.rank() - 1);
    return batch;
  };
  Shape shape = broadcast_shapes(batch_of(a), batch_of(b), "matmul");
  if (a.rank() > 1) shape.push_back(a[a.rank() - 2]);
  if (b.rank() > 1) shape.push_back(b.back());
  return {{shape, dtype}};
}

OutSpecs Linear::infer(Inputs in, const NoAttrs&) {
  const Tensor &x = in[0], &w = in[1], &b = in[2];
  if (x.dim() == 0 || w.dim() != 2)
    fail<ShapeError>("linear", {.what = x.dim() == 0 ? "the input has no features"
                                                     : "the weight must be a matrix",
                                .got = str("input ", x, " and weight ", w),
                                .expected = "input [..., in] and weight [out, in]"});
  const std::int64_t features = w.shape()[1];
  Shape shape = x.shape();
  if (shape.back() != features)
    fail<ShapeError>("linear", {.what = "input features do not fit the weight",
                                .got = str("input ", x, " and weight ", w),
                                .expected = str(features, " features"),
                                .hint = str("build Linear{", shape.back(), ", ", w.shape()[0],
                                            "} or pass ", features)});
  shape[shape.rank() - 1] = w.shape()[0];
  if (b.defined() && !is_expandable(b.shape(), shape))
    fail<ShapeError>("linear", {.what = "the bias does not fit the result",
                                .got = str("bias ", b, " for a result of shape ", shape),
                                .expected = str("[", w.shape()[0],
                                                "] or a shape that broadcasts to the result")});
  return {{shape, require_one_number_dtype("linear", in)}};
}

OutSpecs Dot::infer(Inputs in, const NoAttrs&) {
  require_rank("dot", in, 0, 1, "a vector");
  require_rank("dot", in, 1, 1, "a vector");
  require_inner("dot", in, in[0].shape()[0], in[1].shape()[0]);
  const DType dtype = promoted_dtype(in);
  if (!is_floating(dtype)) require_one_number_dtype("dot", in);
  return {{{}, dtype}};
}

OutSpecs Vecdot::infer(Inputs in, const NoAttrs&) {
  if (in[0].dim() == 0 || in[1].dim() == 0)
    fail<ShapeError>("vecdot", {.what = "a 0-dim tensor is not a vector",
                                .got = str(in),
                                .expected = "at least one dimension each",
                                .hint = "use a * b"});
  require_inner("vecdot", in, in[0].shape().back(), in[1].shape().back());
  Shape shape = broadcast_shapes(in[0].shape(), in[1].shape(), "vecdot");
  shape.erase(shape.rank() - 1);
  return {{shape, require_one_number_dtype("vecdot", in)}};
}

std::span<OpInfo* const> matmul_ops() { return infos_of(MatmulOps{}); }

}  // namespace mezzo::op
