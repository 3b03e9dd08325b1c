#include "matmul.h"

#include "../../tensor/core/dispatch.h"
#include "../../tensor/ops/addmm.h"
#include "../../tensor/ops/linear_chain.h"
#include "../../tensor/ops/matmul.h"
#include "../../tensor/ops/require.h"
#include "../../tensor/text/text.h"

namespace mezzo {

Tensor matmul(const Tensor& a, const Tensor& b) { return apply<op::MatMul>(a, b); }
Tensor mm(const Tensor& a, const Tensor& b) { return apply<op::Mm>(a, b); }
Tensor bmm(const Tensor& a, const Tensor& b) { return apply<op::Bmm>(a, b); }
Tensor mv(const Tensor& a, const Tensor& v) { return apply<op::Mv>(a, v); }
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return apply<op::Linear>(x, weight, bias);
}

Tensor mlp(const Tensor& x, const std::vector<Tensor>& weights, const std::vector<Tensor>& biases,
           const MlpOptions& options) {
  if (weights.empty() || (!biases.empty() && biases.size() != weights.size()))
    fail<ValueError>(
        "mlp", {.what = weights.empty() ? "there is no layer" : "wrong number of biases",
                .got = str(biases.size(), " biases for ", weights.size(), " weights"),
                .expected = weights.empty() ? "one weight or more" : "one per weight, or none"});
  std::vector<Tensor> operands{x};
  for (std::size_t i = 0; i < weights.size(); ++i) {
    require_defined("mlp", weights[i]);
    operands.push_back(weights[i]);
    operands.push_back(biases.empty() ? Tensor{} : biases[i]);
  }
  return apply_list<op::Mlp>({options.activation, options.activates_last}, operands);
}

Tensor dot(const Tensor& a, const Tensor& b) { return apply<op::Dot>(a, b); }
Tensor vecdot(const Tensor& a, const Tensor& b) { return apply<op::Vecdot>(a, b); }

Tensor outer(const Tensor& u, const Tensor& v) {
  if (u.dim() != 1 || v.dim() != 1)
    fail<ShapeError>("outer", {.what = "operands must be vectors",
                               .got = str(u, " and ", v),
                               .expected = "1 dimension each"});
  return matmul(u.unsqueeze(1), v.unsqueeze(0));
}

#define MZ_ADDED_PRODUCT(function, Op)                                         \
  Tensor function(const Tensor& c, const Tensor& a, const Tensor& b,           \
                  const AddmmOptions& options) {                               \
    return apply_with<op::Op>({options.beta, options.alpha}, c, a, b);         \
  }                                                                            \
  const Tensor& function##_(const Tensor& c, const Tensor& a, const Tensor& b, \
                            const AddmmOptions& options) {                     \
    return apply_in_place<op::Op>({options.beta, options.alpha}, c, a, b);     \
  }
MZ_ADDED_PRODUCT(addbmm, Addbmm)
MZ_ADDED_PRODUCT(addmm, Addmm)
MZ_ADDED_PRODUCT(addmv, Addmv)
MZ_ADDED_PRODUCT(addr, Addr)
MZ_ADDED_PRODUCT(baddbmm, Baddbmm)
#undef MZ_ADDED_PRODUCT

}  // namespace mezzo
