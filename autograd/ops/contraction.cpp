#include "contraction.h"

#include "../../tensor/core/dispatch.h"
#include "../../tensor/ops/contraction.h"
#include "../../tensor/ops/cross.h"

namespace mezzo {

Tensor bilinear(const Tensor& x1, const Tensor& x2, const Tensor& weight, const Tensor& bias) {
  return apply<op::Bilinear>(x1, x2, weight, bias);
}

Tensor chain_matmul(const std::vector<Tensor>& matrices) {
  return apply_list<op::ChainMatmul>({}, matrices);
}

Tensor cross(const Tensor& a, const Tensor& b, const CrossOptions& options) {
  return apply_with<op::Cross>({options.dim}, a, b);
}

Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands) {
  return apply_list<op::Einsum>({equation}, operands);
}

Tensor multi_dot(const std::vector<Tensor>& tensors) {
  return apply_list<op::MultiDot>({}, tensors);
}

Tensor tensordot(const Tensor& a, const Tensor& b, const TensordotDims& dims) {
  return apply_with<op::Tensordot>({dims.count, dims.a, dims.b}, a, b);
}

}  // namespace mezzo
