// collate: joins samples into a batch.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "any_dataset.h"
#include "batch.h"

namespace mezzo::data {

/** Returns a batch of the samples, stacked along a new first dimension: samples of shape s give
 *  [N, s...], of the same dtype, in memory of their own. The batch has no y if no sample has one.
 *  Errors: ValueError for an empty list; ShapeError and DtypeError that name the first sample that
 *  differs from sample 0; DeviceError unless all are on the CPU. */
MZ_API Batch collate(const std::vector<Sample>& samples);

/** A function in place of collate(), for example to pad sequences to one length. */
using Collate = std::function<Batch(const std::vector<Sample>&)>;

namespace detail {

/** As collate(). Errors name "op(sample names[i])". `pinned`: into pinned memory. */
Batch stacked(const std::vector<Sample>& samples, std::string_view op,
              std::span<const std::int64_t> names, bool pinned);

}  // namespace detail
}  // namespace mezzo::data
