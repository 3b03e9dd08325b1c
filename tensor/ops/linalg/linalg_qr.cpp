// The gradient of the QR decomposition.
#include "../../core/dispatch.h"
#include "../../core/error.h"
#include "../../text/text.h"
#include "../create.h"
#include "../elementwise/operators.h"
#include "../matmul/matmul.h"
#include "../shape/join.h"
#include "../shape/rearrange.h"
#include "linalg.h"
#include "linalg_gradient.h"
#include "triangle.h"

namespace mezzo::op {

namespace {

/** Returns the gradient of x = q r with square r, from those of q and r. */
Tensor through_square(const Tensor& q, const Tensor& r, const Tensor& gq, const Tensor& gr) {
  const Tensor m = matmul(gr, transposed(r)) - matmul(transposed(q), gq);
  const Tensor symmetric = triu(m) + transposed(triu(m, 1));
  const Tensor sum = gq + matmul(q, symmetric);
  return transposed(triangular_solution(r, transposed(sum), true));
}

}  // namespace

Grads Qr::backward(const Saved& saved, const Grads& gy) {
  const ApiScope scope("qr");
  const Tensor &q = saved.outputs[0], &r = saved.outputs[1];
  const std::int64_t m = q.size(-2), n = r.size(-1);
  if (saved.attrs<Qr>().complete && m > n)
    fail<Unsupported>("qr", {.what = "complete matrices Q have no gradient if there are more rows "
                                     "than columns",
                             .got = str(q),
                             .hint = "use QrMode::reduced"});
  const Tensor gq = gy[0].defined() ? gy[0] : zeros_like(q);
  const Tensor gr = gy[1].defined() ? gy[1] : zeros_like(r);
  if (m >= n) return {through_square(q, r, gq, gr)};
  // x = [x1 x2] with x1 = q r1, and r2 = q^T x2.
  const Tensor r2 = r.narrow(-1, m, n - m), gr2 = gr.narrow(-1, m, n - m);
  const Tensor of_q = gq + matmul(matmul(q, r2), transposed(gr2));
  return {
      cat({through_square(q, r.narrow(-1, 0, m), of_q, gr.narrow(-1, 0, m)), matmul(q, gr2)}, -1)};
}

}  // namespace mezzo::op
