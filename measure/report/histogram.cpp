#include "histogram.h"

#include <algorithm>

#include "../../amp/diagnose/unobserved.h"
#include "../../tensor/ops/ops.h"

namespace mezzo::amp::report {

PendingRow pending_row(SampleRow row, const Tensor& x) {
  const Unobserved quiet;
  row.dtype = x.dtype();
  return {.row = std::move(row), .elements = x.numel(), .counts = exponent_histogram(x)};
}

PendingRow pending_update(SampleRow row, const Tensor& before, const Tensor& after) {
  const Unobserved quiet;
  row.dtype = after.dtype();
  // Weights that are 0 have no ratio: they give infinity or NaN, which the page does not count.
  ChangeHistograms histograms = change_histograms(before, after);
  return {.row = std::move(row),
          .elements = after.numel(),
          .counts = std::move(histograms.change),
          .ratio = std::move(histograms.ratio)};
}

Histogram to_histogram(const ExponentHistogram& counts, std::int64_t elements) {
  const std::vector<std::int64_t> all = counts.counts.to(cpu).to_vector<std::int64_t>();
  Histogram h{.elements = elements,
              .zeros = all.front(),
              .infinities = all[all.size() - 2],
              .nans = all.back(),
              .largest = counts.largest.item<double>()};
  const auto begin = all.begin() + 1, end = all.end() - 2;
  const auto is_used = [](std::int64_t count) { return count > 0; };
  const auto first = std::find_if(begin, end, is_used);
  if (first == end) return h;
  const auto last =
      std::find_if(std::make_reverse_iterator(end), std::make_reverse_iterator(first), is_used)
          .base();
  h.lowest = ExponentHistogram::kLeast + static_cast<int>(first - begin);
  h.counts.assign(first, last);
  return h;
}

std::vector<SampleRow> finished(const std::vector<PendingRow>& rows) {
  const Unobserved quiet;
  std::vector<SampleRow> out;
  out.reserve(rows.size());
  for (const PendingRow& pending : rows) {
    SampleRow row = pending.row;
    row.histogram = to_histogram(pending.counts, pending.elements);
    if (pending.ratio) row.ratio = to_histogram(*pending.ratio, pending.elements);
    out.push_back(std::move(row));
  }
  return out;
}

}  // namespace mezzo::amp::report
