#include "running_extreme.h"

#include "../../tensor/core/dispatch.h"
#include "../../tensor/ops/require.h"
#include "../../tensor/ops/running_extreme.h"

namespace mezzo {

namespace {

template <class Op> ValuesAndIndices both(const AttrsOf<Op>& attrs, const Tensor& x) {
  auto results = apply_all<Op>(attrs, x);
  return {std::move(results[0]), std::move(results[1])};
}

}  // namespace

ValuesAndIndices cummax(const Tensor& x, std::int64_t dim) { return both<op::Cummax>({dim}, x); }

ValuesAndIndices cummin(const Tensor& x, std::int64_t dim) { return both<op::Cummin>({dim}, x); }

Tensor median(const Tensor& x) {
  require_defined("median", x);
  return both<op::Median>({0, false}, x.reshape({x.numel()})).values;
}

ValuesAndIndices median(const Tensor& x, std::int64_t dim, const KeepDimOptions& options) {
  return both<op::Median>({dim, options.keepdim}, x);
}

}  // namespace mezzo
