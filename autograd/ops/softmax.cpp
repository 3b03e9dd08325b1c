#include "softmax.h"

#include "../../tensor/core/dispatch.h"
#include "../../tensor/ops/softmax.h"

namespace mezzo {

namespace {

/** Applies the op along `dim`. An explicit dtype overrides the op's precision tag. */
template <class Op> Tensor along(const Tensor& x, std::int64_t dim, const SoftmaxOptions& options) {
  const op::DimAttrs attrs{wrap_dim(dim, x.dim(), Op::traits.name.data())};
  if (!options.dtype) return apply_with<Op>(attrs, x);
  const CastScope no_casts(nullptr);
  return apply_with<Op>(attrs, x.to(*options.dtype));
}

}  // namespace

Tensor log_softmax(const Tensor& x, std::int64_t dim, const SoftmaxOptions& options) {
  return along<op::LogSoftmax>(x, dim, options);
}
Tensor softmax(const Tensor& x, std::int64_t dim, const SoftmaxOptions& options) {
  return along<op::Softmax>(x, dim, options);
}
Tensor softmin(const Tensor& x, std::int64_t dim, const SoftmaxOptions& options) {
  return along<op::Softmin>(x, dim, options);
}

}  // namespace mezzo
