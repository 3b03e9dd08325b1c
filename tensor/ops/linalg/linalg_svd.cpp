// Gradients of the singular value decomposition and of the Moore-Penrose inverse. And the composite
// of svdvals.
#include "../../core/dispatch.h"
#include "../../text/text.h"
#include "../elementwise/operators.h"
#include "../elementwise/pointwise.h"
#include "../matmul/matmul.h"
#include "../reduce/reduce.h"
#include "linalg.h"
#include "linalg_gradient.h"

namespace mezzo::op {

namespace {

/** The first k singular vectors and their gradients, undefined where there is none. */
struct Vectors {
  Tensor u, v, gu, gv;  // as columns
};

/** Returns the first k columns of g. Errors: ValueError if the others are not zero. */
Tensor first_columns(const Tensor& g, std::int64_t k) {
  if (!g.defined() || g.size(-1) == k) return g;
  const std::int64_t beyond = g.size(-1) - k;
  if (any(g.detach().narrow(-1, k, beyond) != 0.0).item<bool>())
    fail<ValueError>("svd",
                     {.what = "a loss depends on singular vectors beyond the singular values, "
                              "which are arbitrary",
                      .got = str(g),
                      .expected = str("a gradient of the first ", k, " vectors"),
                      .hint = "use {.full_matrices = false}"});
  return g.narrow(-1, 0, k);
}

Vectors vectors_of(const Saved& saved, const Grads& gy) {
  const std::int64_t k = saved.outputs[1].size(-1);
  const Tensor gv = gy[2].defined() ? transposed(gy[2]) : Tensor{};
  return {saved.outputs[0].narrow(-1, 0, k), transposed(saved.outputs[2]).narrow(-1, 0, k),
          first_columns(gy[0], k), first_columns(gv, k)};
}

/** Throws ValueError unless the gradients of the vectors of an m by n matrix are defined. */
void require_separate(const Tensor& values, bool square) {
  refuse_repeated("svd", values, "singular values");
  if (square || values.numel() == 0) return;
  const Tensor s = values.detach();
  if (any(s.select(-1, s.size(-1) - 1) <= rounding_of(s)).item<bool>())
    fail<ValueError>("svd", {.what = "a singular value is zero to rounding, so the vectors have no "
                                     "gradient",
                             .got = str(values),
                             .expected = "matrices of full rank, or a loss of the values alone"});
}

Tensor skew(const Tensor& x) { return x - transposed(x); }

/** Returns the part of g orthogonal to the columns of u, divided by the singular values. */
Tensor orthogonal_part(const Tensor& u, const Tensor& g, const Tensor& values) {
  return (g - matmul(u, matmul(transposed(u), g))) / values.unsqueeze(-2);
}

/** Returns the gradient in the bases of the singular vectors, [*,k,k]. */
Tensor inner_gradient(const Vectors& all, const Tensor& s, const Tensor& gs) {
  const Tensor identity = identity_like(s, s.size(-1));
  const Tensor squares = s * s;
  const Tensor gaps = squares.unsqueeze(-2) - squares.unsqueeze(-1) + identity;
  Tensor inner = (gs.defined() ? gs : s * 0.0).unsqueeze(-1) * identity;
  if (all.gu.defined())
    inner = inner + skew(matmul(transposed(all.u), all.gu)) / gaps * s.unsqueeze(-2);
  if (all.gv.defined())
    inner = inner + s.unsqueeze(-1) * (skew(matmul(transposed(all.v), all.gv)) / gaps);
  return inner;
}

}  // namespace

Grads Svd::backward(const Saved& saved, const Grads& gy) {
  const Tensor& s = saved.outputs[1];
  const Vectors all = vectors_of(saved, gy);
  if (!all.gu.defined() && !all.gv.defined())
    return {matmul(all.u * gy[1].unsqueeze(-2), transposed(all.v))};
  const std::int64_t m = all.u.size(-2), n = all.v.size(-2);
  require_separate(s, m == n);
  Tensor left = matmul(all.u, inner_gradient(all, s, gy[1]));
  if (all.gu.defined() && m > n) left = left + orthogonal_part(all.u, all.gu, s);
  Tensor gradient = matmul(left, transposed(all.v));
  if (all.gv.defined() && m < n)
    gradient = gradient + matmul(all.u, transposed(orthogonal_part(all.v, all.gv, s)));
  return {gradient};
}

std::vector<Tensor> Svdvals::composite(Inputs in, const Attrs&) {
  require_matrices("svdvals", in[0]);
  return {linalg::svd(in[0], {.full_matrices = false}).S};
}

// With y = x^+: dy = -y dx y + y y^T dx^T (I - x y) + (I - y x) dx^T y^T y.
Grads Pinv::backward(const Saved& saved, const Grads& gy) {
  const Tensor &x = saved.inputs[0], &y = saved.outputs[0];
  const Tensor gt = transposed(gy[0]), yt = transposed(y);
  const Tensor outer = -matmul(matmul(yt, gy[0]), yt);
  const Tensor rows = matmul(gt, matmul(y, yt)), columns = matmul(matmul(yt, y), gt);
  return {outer + rows - matmul(x, matmul(y, rows)) + columns - matmul(matmul(columns, y), x)};
}

}  // namespace mezzo::op
