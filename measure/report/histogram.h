// PendingRow: a histogram that may still be in the memory of a device.
#pragma once

#include <optional>
#include <vector>

#include "../../tensor/ops/elementwise/exponents.h"
#include "lines.h"

namespace mezzo::amp::report {

/** A row whose counts are read when the step has ended, so that a device is waited for once. */
struct PendingRow {
  SampleRow row;  // all but the histograms
  std::int64_t elements = 0;
  ExponentHistogram counts;
  std::optional<ExponentHistogram> ratio = {};
};

/** Returns the row of a tensor. Any dtype and device; the counting is not observed or recorded. */
PendingRow pending_row(SampleRow row, const Tensor& x);

/** Returns the row of an update: of `after` - `before`, and of its ratio to `before` in magnitude.
 *  Computed in the dtype of the tensors, f32 for 16-bit ones. */
PendingRow pending_update(SampleRow row, const Tensor& before, const Tensor& after);

/** Reads the counts, waiting for the device. */
std::vector<SampleRow> finished(const std::vector<PendingRow>& rows);

/** Reads a histogram, waiting for the device. */
Histogram to_histogram(const ExponentHistogram& counts, std::int64_t elements);

}  // namespace mezzo::amp::report
