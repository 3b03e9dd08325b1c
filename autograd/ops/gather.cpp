#include "gather.h"

#include "../../tensor/core/dispatch.h"
#include "../../tensor/ops/gather.h"
#include "create.h"

namespace mezzo {

namespace {

/** Returns one value in x's dtype, expanded to the index's shape. */
Tensor repeated(double value, const Tensor& x, const Tensor& index) {
  op::require_index_dtype("scatter", index);
  return full({}, value, {.dtype = x.dtype(), .device = x.device()}).expand(index.shape());
}

}  // namespace

Tensor gather(const Tensor& x, std::int64_t dim, const Tensor& index) {
  return apply_with<op::Gather>({dim}, x, index);
}

Tensor take_along_dim(const Tensor& x, const Tensor& index, std::optional<std::int64_t> dim) {
  if (dim) return apply_with<op::TakeAlongDim>({*dim}, x, index);
  return apply_with<op::TakeAlongDim>({0}, x.reshape({-1}), index.reshape({-1}));
}

Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src) {
  return apply_with<op::Scatter>({dim}, x, index, src);
}
Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, double value) {
  return scatter(x, dim, index, repeated(value, x, index));
}
const Tensor& scatter_(const Tensor& self, std::int64_t dim, const Tensor& index,
                       const Tensor& src) {
  return apply_in_place<op::Scatter>({dim}, self, index, src);
}
const Tensor& scatter_(const Tensor& self, std::int64_t dim, const Tensor& index, double value) {
  return scatter_(self, dim, index, repeated(value, self, index));
}

Tensor scatter_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src) {
  return apply_with<op::ScatterAdd>({dim}, x, index, src);
}
const Tensor& scatter_add_(const Tensor& self, std::int64_t dim, const Tensor& index,
                           const Tensor& src) {
  return apply_in_place<op::ScatterAdd>({dim}, self, index, src);
}

}  // namespace mezzo
