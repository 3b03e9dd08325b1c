// Shape rules, gradients and public functions of the ops in search.h.
#include "search.h"

#include <algorithm>
#include <limits>

#include "../../core/checked_size.h"
#include "../../core/dispatch.h"
#include "../../core/error.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../create.h"
#include "../elementwise/compare.h"
#include "../elementwise/selection.h"
#include "../reduce/arg_reduce.h"
#include "../reduce/reduce.h"
#include "../require.h"
#include "../shape/join.h"
#include "../sort/sort.h"
#include "gather.h"
#include "index.h"

namespace mezzo::op {

OutSpecs Searchsorted::infer(Inputs in, const Attrs&) {
  const Tensor &sorted = in[0], &values = in[1];
  if (sorted.dim() == 0)
    fail<ShapeError>("searchsorted", {.what = "the sorted sequence has no dimension",
                                      .got = str(sorted),
                                      .expected = "at least 1 dimension"});
  bool fits = sorted.dim() == 1 || sorted.dim() == values.dim();
  for (int d = 0; fits && d < sorted.dim() - 1; ++d) fits = sorted.shape()[d] == values.shape()[d];
  if (!fits)
    fail<ShapeError>("searchsorted",
                     {.what = "sequences and values do not fit each other",
                      .got = str(in),
                      .expected = "one sequence, or equal sizes except in the last dimension"});
  return {{values.shape(), DType::i64}};
}

SearchPlan search_plan(Inputs in) {
  const DType dtype = promoted_dtype(in);
  SearchPlan plan{.length = in[0].shape().back(),
                  .values_per_line = in[1].numel(),
                  .compute = compute_dtype(dtype),
                  .sorted = in[0].detach().to(dtype).contiguous(),
                  .values = in[1].detach().to(in[0].device()).to(dtype).contiguous()};
  if (in[0].dim() > 1) plan.values_per_line = in[1].shape().back();
  return plan;
}

std::span<OpInfo* const> search_ops() { return infos_of(SearchOps{}); }

// The composites of bucketize, isin and bincount.

std::vector<Tensor> Bucketize::composite(Inputs in, const Attrs& attrs) {
  if (in[1].dim() != 1)
    fail<ShapeError>("bucketize", {.what = "the boundaries are not one sequence",
                                   .got = str(in[1]),
                                   .expected = "1 dimension"});
  return {searchsorted(in[1], in[0], {.right = attrs.right})};
}

std::vector<Tensor> Isin::composite(Inputs in, const Attrs& attrs) {
  const DType dtype = promoted_dtype(in);
  const Tensor x = in[0].to(dtype), list = in[1].to(dtype).reshape({in[1].numel()});
  if (list.numel() == 0 || x.numel() == 0)
    return {full(x.shape(), attrs.invert, {.dtype = DType::boolean, .device = x.device()})};
  const Tensor sorted = sort(list).values;
  // A value beyond all others is compared with the last one, which it does not equal.
  const Tensor at = clamp(searchsorted(sorted, x), {.max = static_cast<double>(list.numel() - 1)});
  const Tensor nearest = index_select(sorted, 0, at.reshape({x.numel()})).view(x.shape());
  return {attrs.invert ? ne(x, nearest) : eq(x, nearest)};
}

std::vector<Tensor> Bincount::composite(Inputs in, const Attrs& attrs) {
  const Tensor &x = in[0], &weights = in[1];
  if (!weights.defined()) {
    const TensorOptions integers{.dtype = DType::i64, .device = x.device()};
    return {scatter_add(zeros({attrs.length}, integers), 0, x.to(DType::i64),
                        ones(x.shape(), integers))};
  }
  const DType dtype = weights.dtype() == DType::f32 ? DType::f32 : DType::f64;
  return {scatter_add(zeros({attrs.length}, {.dtype = dtype, .device = x.device()}), 0,
                      x.to(DType::i64), weights.to(dtype))};
}

}  // namespace mezzo::op

namespace mezzo {

namespace {

/** Returns indices up to `most`, as i32 if wanted. */
Tensor in_wanted_dtype(const char* op, const Tensor& indices, std::int64_t most, bool out_int32) {
  if (!out_int32) return indices;
  if (most > std::numeric_limits<std::int32_t>::max())
    fail<SizeError>(
        op,
        {.what = "i32 does not hold every index", .got = str(most), .hint = "leave out out_int32"});
  const NoGradNoCasts plain_ops;
  return indices.to(DType::i32);
}

/** Returns the smallest and the largest element; waits for a device once. */
std::pair<std::int64_t, std::int64_t> range_of(const Tensor& x) {
  const NoGradNoCasts plain_ops;
  const std::vector<std::int64_t> ends = stack({min(x), max(x)}).to_vector<std::int64_t>();
  return {ends[0], ends[1]};
}

std::int64_t bins_of(const Tensor& x, const BincountOptions& options) {
  require_defined("bincount", x);
  if (x.dim() != 1)
    fail<ShapeError>(
        "bincount",
        {.what = "wrong number of dimensions", .got = str(x), .expected = "1 dimension"});
  if (!is_integer(x.dtype()))
    fail<DtypeError>(
        "bincount",
        {.what = "only integers can be counted", .got = str(x), .expected = "u8, i32 or i64"});
  if (options.weights.defined() && !(options.weights.shape() == x.shape()))
    fail<ShapeError>("bincount", {.what = "every number needs a weight",
                                  .got = str(str(x), " and weights ", str(options.weights)),
                                  .expected = "equal shapes"});
  if (options.minlength < 0)
    fail<ValueError>("bincount", {.what = "minlength is negative", .got = str(options.minlength)});
  if (x.numel() == 0) return options.minlength;
  const ApiScope called("bincount");
  const auto [smallest, largest] = range_of(x);
  if (smallest < 0)
    fail<ValueError>("bincount", {.what = "a number is negative", .got = str(smallest)});
  return std::max(options.minlength, checked_size(WideSize{largest} + 1, "bincount"));
}

}  // namespace

Tensor searchsorted(const Tensor& sorted_sequence, const Tensor& values,
                    const SearchsortedOptions& options) {
  Tensor sequence = sorted_sequence;
  if (options.sorter.defined()) {
    require_defined("searchsorted", sorted_sequence);
    if (!(options.sorter.shape() == sequence.shape()))
      fail<ShapeError>("searchsorted",
                       {.what = "the sorter does not fit the sequence",
                        .got = str(str(sequence), " and sorter ", str(options.sorter)),
                        .expected = "equal shapes"});
    const ApiScope called("searchsorted");
    const NoGradNoCasts plain_ops;
    sequence = gather(sequence, -1, options.sorter);
  }
  const Tensor indices = apply_with<op::Searchsorted>({options.right}, sequence, values);
  return in_wanted_dtype("searchsorted", indices, sequence.size(-1), options.out_int32);
}

Tensor bucketize(const Tensor& x, const Tensor& boundaries, const BucketizeOptions& options) {
  const Tensor buckets = apply_with<op::Bucketize>({options.right}, x, boundaries);
  return in_wanted_dtype("bucketize", buckets, boundaries.numel(), options.out_int32);
}

Tensor isin(const Tensor& elements, const Tensor& test_elements, const IsinOptions& options) {
  return apply_with<op::Isin>({options.invert}, elements, test_elements);
}

Tensor bincount(const Tensor& x, const BincountOptions& options) {
  return apply_with<op::Bincount>({bins_of(x, options)}, x, options.weights);
}

}  // namespace mezzo
