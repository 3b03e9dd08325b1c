#include "sort.h"

#include "../../tensor/core/dispatch.h"
#include "../../tensor/ops/require.h"
#include "../../tensor/ops/sort.h"
#include "../../tensor/text/text.h"
#include "create.h"

namespace mezzo {

namespace {

template <class Op> ValuesAndIndices both(const typename Op::Attrs& attrs, const Tensor& x) {
  std::array<Tensor, 2> results = apply_all<Op>(attrs, x);
  return {std::move(results[0]), std::move(results[1])};
}

}  // namespace

ValuesAndIndices sort(const Tensor& x, const SortOptions& options) {
  return both<op::Sort>({options.dim, options.descending}, x);
}

Tensor argsort(const Tensor& x, const SortOptions& options) {
  return apply_with<op::Argsort>({options.dim, options.descending}, x);
}

ValuesAndIndices topk(const Tensor& x, std::int64_t k, const TopkOptions& options) {
  return both<op::Topk>({k, options.dim, options.largest, options.sorted}, x);
}

ValuesAndIndices kthvalue(const Tensor& x, std::int64_t k, const KthvalueOptions& options) {
  return both<op::Kthvalue>({k, options.dim, options.keepdim}, x);
}

namespace {

void require_share(double q) {
  if (!(q >= 0 && q <= 1))
    fail<ValueError>("quantile",
                     {.what = "a share is out of range", .got = str(q), .expected = "0 <= q <= 1"});
}

Tensor quantile_at(const Tensor& x, const Tensor& q, const QuantileOptions& options) {
  return apply_with<op::Quantile>(
      {options.dim, options.keepdim, static_cast<op::Interpolation>(options.interpolation)}, x, q);
}

}  // namespace

Tensor quantile(const Tensor& x, const Tensor& q, const QuantileOptions& options) {
  require_defined("quantile", q);
  if (q.device() == cpu && is_floating(q.dtype()))
    for (const double share : q.to_vector<double>()) require_share(share);
  return quantile_at(x, q, options);
}

Tensor quantile(const Tensor& x, double q, const QuantileOptions& options) {
  require_defined("quantile", x);
  require_share(q);
  return quantile_at(x, full({}, q, {.dtype = DType::f64, .device = x.device()}), options);
}

}  // namespace mezzo
