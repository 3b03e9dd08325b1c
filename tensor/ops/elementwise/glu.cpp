// The composite of glu.
#include "glu.h"

#include "../../core/dispatch.h"
#include "../../core/elementwise.h"
#include "../../core/elementwise_info.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../require.h"

namespace mezzo::op {

std::vector<Tensor> Glu::composite(Inputs in, const Attrs& attrs) {
  const Tensor& x = in[0];
  require_one_floating_dtype("glu", in);
  const int dim = wrap_dim(attrs.dim, x.dim(), "glu");
  if (x.dim() == 0 || x.shape()[dim] % 2 != 0)
    fail<ShapeError>("glu", {.what = str("dimension ", dim, " cannot be halved"),
                             .got = str(x),
                             .expected = "an even size"});
  const std::int64_t half = x.shape()[dim] / 2;
  return {apply<GluGate>(x.narrow(dim, 0, half), x.narrow(dim, half, half))};
}

std::span<OpInfo* const> glu_ops() { return infos_of(GluOps{}); }

}  // namespace mezzo::op

namespace mezzo {

Tensor glu(const Tensor& x, const GluOptions& options) {
  return apply_with<op::Glu>({options.dim}, x);
}

}  // namespace mezzo
