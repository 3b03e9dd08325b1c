// The gradient of the eigenvalues and eigenvectors of symmetric matrices. And the composite of
// eigvalsh.
#include <cmath>
#include <limits>

#include "../../core/dispatch.h"
#include "../../text/text.h"
#include "../elementwise/operators.h"
#include "../elementwise/pointwise.h"
#include "../matmul/matmul.h"
#include "../reduce/reduce.h"
#include "linalg.h"
#include "linalg_gradient.h"

namespace mezzo {

Tensor rounding_of(const Tensor& values) {
  const double epsilon = values.dtype() == DType::f32 ? std::numeric_limits<float>::epsilon()
                                                      : std::numeric_limits<double>::epsilon();
  const double steps = 4 * std::sqrt(static_cast<double>(values.size(-1)));
  return amax(abs(values), {-1}) * (steps * epsilon);
}

void refuse_repeated(const char* op, const Tensor& values, const char* what) {
  const std::int64_t k = values.size(-1);
  if (values.numel() == 0 || k == 1) return;
  const Tensor sorted = values.detach();
  const Tensor gaps = abs(sorted.narrow(-1, 1, k - 1) - sorted.narrow(-1, 0, k - 1));
  if (!any(gaps <= rounding_of(sorted).unsqueeze(-1)).item<bool>()) return;
  fail<ValueError>(op, {.what = str("two ", what,
                                    " are equal to rounding, so their vectors have no "
                                    "gradient"),
                        .got = str(values),
                        .expected = "different values, or a loss of the values alone"});
}

namespace op {

Grads Eigh::backward(const Saved& saved, const Grads& gy) {
  const Tensor &values = saved.outputs[0], &vectors = saved.outputs[1];
  if (!gy[1].defined()) return {matmul(vectors * gy[0].unsqueeze(-2), transposed(vectors))};
  refuse_repeated("eigh", values, "eigenvalues");
  const Tensor identity = identity_like(values, values.size(-1));
  const Tensor gaps = values.unsqueeze(-2) - values.unsqueeze(-1) + identity;
  const Tensor turned = matmul(transposed(vectors), gy[1]);
  Tensor inner = 0.5 * (turned - transposed(turned)) / gaps;  // 0 on the diagonal
  if (gy[0].defined()) inner = inner + gy[0].unsqueeze(-1) * identity;
  return {matmul(matmul(vectors, inner), transposed(vectors))};
}

std::vector<Tensor> Eigvalsh::composite(Inputs in, const Attrs& attrs) {
  return {linalg::eigh(in[0], {.UPLO = attrs.uplo}).eigenvalues};
}

}  // namespace op

}  // namespace mezzo
