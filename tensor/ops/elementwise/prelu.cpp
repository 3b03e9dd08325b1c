// The composite of prelu.
#include "prelu.h"

#include "../../core/dispatch.h"
#include "../../core/elementwise.h"
#include "../../core/elementwise_info.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../require.h"

namespace mezzo::op {

std::vector<Tensor> Prelu::composite(Inputs in, const NoAttrs&) {
  const Tensor &x = in[0], &w = in[1];
  if (!w.defined())
    fail<ValueError>("prelu", {.what = "the weight is undefined", .expected = "a tensor"});
  const std::int64_t channels = x.dim() >= 2 ? x.shape()[1] : 1;
  if (w.dim() > 1 || (w.numel() != 1 && w.numel() != channels))
    fail<ShapeError>("prelu", {.what = "the weight does not fit the input",
                               .got = str("input ", x, " and weight ", w),
                               .expected = channels == 1 ? std::string("1 element")
                                                         : str("1 element, or ", channels,
                                                               ", one per channel")});
  require_one_floating_dtype("prelu", in);
  Shape along = Shape::filled(x.dim(), 1);
  if (w.numel() != 1) along[1] = channels;
  return {apply<PreluGate>(x, w.reshape(along))};
}

std::span<OpInfo* const> prelu_ops() { return infos_of(PreluOps{}); }

}  // namespace mezzo::op

namespace mezzo {

Tensor prelu(const Tensor& x, const Tensor& weight) { return apply<op::Prelu>(x, weight); }

}  // namespace mezzo
