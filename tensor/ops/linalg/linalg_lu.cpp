// Gradients of solutions, inverses and determinants. And the composite of solve.
#include "../../core/dispatch.h"
#include "../../core/error.h"
#include "../../text/text.h"
#include "../elementwise/operators.h"
#include "../matmul/matmul.h"
#include "../reduce/reduce.h"
#include "../require.h"
#include "linalg.h"
#include "linalg_gradient.h"

namespace mezzo::op {

namespace {

/** Returns g [*] as factors of matrices, [*,1,1]. */
Tensor for_matrices(const Tensor& g) { return g.unsqueeze(-1).unsqueeze(-1); }

/** Returns true if b holds vectors: one, or one for each matrix a [*,n,n]. */
bool holds_vectors(const Tensor& a, const Tensor& b) {
  Shape shape = a.shape();
  shape.erase(shape.rank() - 1);
  return b.dim() == 1 || b.shape() == shape;
}

Shape batch_of(const Tensor& x) {
  Shape shape = x.shape();
  shape.erase(shape.rank() - 1);
  shape.erase(shape.rank() - 1);
  return shape;
}

/** Returns x expanded to the batch. */
Tensor with_batch(const Tensor& x, const Shape& batch) {
  Shape shape = batch;
  shape.push_back(x.size(-2));
  shape.push_back(x.size(-1));
  return x.expand(shape);
}

}  // namespace

std::vector<Tensor> Solve::composite(Inputs in, const Attrs&) {
  require_defined("solve", in[1]);
  require_one_floating_dtype("solve", in);
  require_square("solve", in[0]);
  const Tensor& a = in[0];
  const bool vectors = holds_vectors(a, in[1]);
  const Tensor b = vectors ? in[1].unsqueeze(-1) : in[1];
  if (b.dim() < 2 || b.size(-2) != a.size(-1))
    fail<ShapeError>("solve", {.what = "A and B have different numbers of rows",
                               .got = str(in),
                               .expected = "A [*,n,n], and B [*,n,k], [*,n] or [n]"});
  const Shape batch = broadcast_shapes(batch_of(a), batch_of(b), "solve");
  const Tensor x = apply<SolveMatrices>(with_batch(a, batch), with_batch(b, batch));
  return {vectors ? x.squeeze(-1) : x};
}

Grads SolveMatrices::backward(const Saved& saved, const Grads& gy) {
  const Tensor gb = apply<SolveMatrices>(transposed(saved.inputs[0]), gy[0]);
  Grads grads{{}, gb};
  if (saved.wants(0)) grads[0] = -matmul(gb, transposed(saved.outputs[0]));
  return grads;
}

Grads Inv::backward(const Saved& saved, const Grads& gy) {
  const Tensor y = transposed(saved.outputs[0]);
  return {-matmul(matmul(y, gy[0]), y)};
}

Grads Det::backward(const Saved& saved, const Grads& gy) {
  return {for_matrices(gy[0]) * apply<Cofactors>(saved.inputs[0])};
}

Grads Slogdet::backward(const Saved& saved, const Grads& gy) {
  if (!gy[1].defined()) return {Tensor{}};
  const ApiScope scope("slogdet");
  return {for_matrices(gy[1]) * transposed(linalg::inv(saved.inputs[0]))};
}

// With C = det(a) a^-T: dC = (<C,da> C - C da^T C) / det(a).
Grads Cofactors::backward(const Saved& saved, const Grads& gy) {
  const Tensor &a = saved.inputs[0], &c = saved.outputs[0], &g = gy[0];
  if (a.numel() == 0) return {g};
  const Tensor det = linalg::det(a);
  if (any(det == 0.0).item<bool>())
    fail<ValueError>("det", {.what = "a matrix is singular, so there is no second derivative",
                             .got = str(a),
                             .expected = "invertible matrices"});
  const Tensor along_c = sum(g * c, {-2, -1}, {.keepdim = true});
  return {(along_c * c - matmul(matmul(c, transposed(g)), c)) / for_matrices(det)};
}

}  // namespace mezzo::op
