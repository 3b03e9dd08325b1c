#include "sort.h"

#include "../../tensor/core/dispatch.h"
#include "../../tensor/ops/sort.h"

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

}  // namespace mezzo
