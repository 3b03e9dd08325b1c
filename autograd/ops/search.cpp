#include "search.h"

#include <algorithm>
#include <limits>

#include "../../tensor/core/api_scope.h"
#include "../../tensor/core/checked_size.h"
#include "../../tensor/core/dispatch.h"
#include "../../tensor/ops/require.h"
#include "../../tensor/ops/search.h"
#include "../../tensor/text/text.h"
#include "../grad_mode.h"
#include "gather.h"
#include "join.h"
#include "reduce.h"

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
