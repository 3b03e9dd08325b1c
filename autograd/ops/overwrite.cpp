#include "overwrite.h"

#include "../../tensor/core/dispatch.h"
#include "../../tensor/ops/overwrite.h"
#include "../../tensor/ops/require.h"
#include "../grad_mode.h"

namespace mezzo {

Tensor index_copy(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src) {
  return apply_with<op::IndexCopy>({dim}, x, index, src);
}
const Tensor& index_copy_(const Tensor& self, std::int64_t dim, const Tensor& index,
                          const Tensor& src) {
  return apply_in_place<op::IndexCopy>({dim}, self, index, src);
}

Tensor index_fill(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& value) {
  return apply_with<op::IndexFill>({dim}, x, index, value);
}
const Tensor& index_fill_(const Tensor& self, std::int64_t dim, const Tensor& index,
                          const Tensor& value) {
  require_defined("index_fill_", self);
  return index_copy_(self, dim, index, op::filled_rows("index_fill_", self, dim, index, value));
}

Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source) {
  return apply<op::MaskedScatter>(x, mask, source);
}

UniqueResult unique(const Tensor& x, const UniqueOptions& options) {
  const NoGrad no_grad;
  auto all = apply_all<op::Unique>({}, x);
  return {all[0], options.return_inverse ? all[1] : Tensor{},
          options.return_counts ? all[2] : Tensor{}};
}

}  // namespace mezzo
