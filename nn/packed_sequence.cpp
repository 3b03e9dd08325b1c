#include "packed_sequence.h"

#include <algorithm>
#include <numeric>

#include "../tensor/ops/create.h"
#include "../tensor/ops/index/index.h"
#include "../tensor/ops/index/overwrite.h"
#include "../tensor/ops/require.h"
#include "../tensor/text/text.h"

namespace mezzo::nn {

namespace {

/** The sizes of a padded batch, with steps or batch first. */
struct Padded {
  std::int64_t steps, batch;
  bool batch_first;

  std::int64_t row(std::int64_t step, std::int64_t sequence) const {
    return batch_first ? sequence * steps + step : step * batch + sequence;
  }
};

[[noreturn]] void refuse(const char* what, const std::string& got) {
  fail<ValueError>("PackedSequence",
                   {.what = what, .got = got, .hint = "use pack_padded_sequence()"});
}

/** Returns the row index in the padded batch for each row of the packed data. */
Tensor rows_of(const PackedSequence& sequence, const Padded& padded) {
  std::vector<std::int64_t> rows;
  for (std::size_t step = 0; step < sequence.batch_sizes.size(); ++step)
    for (std::int64_t i = 0; i < sequence.batch_sizes[step]; ++i) {
      const bool sorted = sequence.sorted_indices.empty();
      rows.push_back(padded.row(static_cast<std::int64_t>(step),
                                sorted ? i : sequence.sorted_indices[static_cast<std::size_t>(i)]));
    }
  const Tensor index = empty({static_cast<std::int64_t>(rows.size())}, {.dtype = i64});
  std::copy(rows.begin(), rows.end(), index.data<std::int64_t>());
  return index.to(sequence.data.device());
}

void require_lengths(const Padded& padded, const std::vector<std::int64_t>& lengths,
                     bool enforce_sorted) {
  const char* const op = "pack_padded_sequence";
  if (static_cast<std::int64_t>(lengths.size()) != padded.batch)
    fail<ValueError>(op, {.what = "the number of lengths must equal the number of sequences",
                          .got = str(lengths.size()),
                          .expected = str(padded.batch)});
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 1 || lengths[i] > padded.steps)
      fail<ValueError>(op, {.what = "a length is out of range",
                            .got = str(lengths[i]),
                            .expected = str("1..", padded.steps)});
    if (enforce_sorted && i > 0 && lengths[i] > lengths[i - 1])
      fail<ValueError>(op, {.what = "the sequences are not sorted by length",
                            .got = str(lengths[i], " after ", lengths[i - 1]),
                            .expected = "non-increasing lengths",
                            .hint = "pass {.enforce_sorted = false}"});
  }
}

}  // namespace

std::vector<std::int64_t> PackedSequence::unsorted_indices() const {
  std::vector<std::int64_t> places(sorted_indices.size());
  for (std::size_t i = 0; i < places.size(); ++i)
    places[static_cast<std::size_t>(sorted_indices[i])] = static_cast<std::int64_t>(i);
  return places;
}

std::vector<std::int64_t> PackedSequence::lengths() const {
  if (!data.defined() || data.dim() < 1 || batch_sizes.empty())
    refuse("the sequence has no steps", str(data));
  const auto batch = static_cast<std::size_t>(std::max<std::int64_t>(batch_sizes.front(), 0));
  std::int64_t rows = 0, most = batch_sizes.front();
  std::vector<std::int64_t> sorted(batch, 0);
  for (const std::int64_t size : batch_sizes) {
    if (size < 1 || size > most)
      refuse("batch_sizes must be positive and non-increasing", str(size, " after ", most));
    for (std::size_t i = 0; i < static_cast<std::size_t>(size); ++i) ++sorted[i];
    rows += most = size;
  }
  if (rows != data.size(0))
    refuse("batch_sizes do not fit the data", str(rows, " steps for ", str(data)));
  if (sorted_indices.empty()) return sorted;
  std::vector<std::int64_t> lengths(batch, 0);
  const bool fits = sorted_indices.size() == batch;
  for (std::size_t i = 0; fits && i < batch; ++i)
    if (const std::int64_t k = sorted_indices[i]; k >= 0 && k < static_cast<std::int64_t>(batch))
      lengths[static_cast<std::size_t>(k)] = sorted[i];
  if (!fits || std::count(lengths.begin(), lengths.end(), 0) > 0)
    refuse("sorted_indices must be a permutation of the batch",
           str(sorted_indices.size(), " indices for a batch of ", batch));
  return lengths;
}

PackedSequence PackedSequence::to(DType dtype) const {
  return {data.to(dtype), batch_sizes, sorted_indices};
}
PackedSequence PackedSequence::to(Device device) const {
  return {data.to(device), batch_sizes, sorted_indices};
}

PackedSequence pack_padded_sequence(const Tensor& x, const std::vector<std::int64_t>& lengths,
                                    const PackOptions& options) {
  require_defined("pack_padded_sequence", x);
  if (x.dim() < 2)
    fail<ShapeError>(
        "pack_padded_sequence",
        {.what = "expected at least two dimensions", .got = str(x), .expected = "[T, N, ...]"});
  const int batch_dim = options.batch_first ? 0 : 1;
  const Padded padded{x.size(1 - batch_dim), x.size(batch_dim), options.batch_first};
  require_lengths(padded, lengths, options.enforce_sorted);
  PackedSequence sequence{x, {}, {}};
  std::vector<std::int64_t> sorted = lengths;
  if (!std::is_sorted(lengths.rbegin(), lengths.rend())) {
    sequence.sorted_indices.resize(lengths.size());
    std::iota(sequence.sorted_indices.begin(), sequence.sorted_indices.end(), 0);
    std::stable_sort(sequence.sorted_indices.begin(), sequence.sorted_indices.end(),
                     [&](std::int64_t a, std::int64_t b) {
                       return lengths[static_cast<std::size_t>(a)] >
                              lengths[static_cast<std::size_t>(b)];
                     });
    std::sort(sorted.rbegin(), sorted.rend());
  }
  for (std::int64_t step = 0; !sorted.empty() && step < sorted.front(); ++step)
    sequence.batch_sizes.push_back(std::count_if(
        sorted.begin(), sorted.end(), [&](std::int64_t length) { return length > step; }));
  sequence.data = index_select(x.flatten(0, 1), 0, rows_of(sequence, padded));
  return sequence;
}

PackedSequence pack_padded_sequence(const Tensor& x, const Tensor& lengths,
                                    const PackOptions& options) {
  require_defined("pack_padded_sequence", lengths);
  if (is_floating(lengths.dtype()) || lengths.dim() != 1)
    fail<ValueError>("pack_padded_sequence", {.what = "lengths must be one integer per sequence",
                                              .got = str(lengths),
                                              .expected = "i64 [N]"});
  return pack_padded_sequence(x, lengths.to_vector<std::int64_t>(), options);
}

PackedSequence detail::packed_like(const PackedSequence& like, const Tensor& x) {
  const Tensor rows = rows_of(like, {x.size(0), x.size(1), false});
  return {index_select(x.flatten(0, 1), 0, rows), like.batch_sizes, like.sorted_indices};
}

PaddedSequence pad_packed_sequence(const PackedSequence& sequence,
                                   const PadPackedOptions& options) {
  const std::vector<std::int64_t> lengths = sequence.lengths();
  const auto longest = static_cast<std::int64_t>(sequence.batch_sizes.size());
  if (options.total_length != 0 && options.total_length < longest)
    fail<ValueError>("pad_packed_sequence", {.what = "total_length is below the longest sequence",
                                             .got = str(options.total_length),
                                             .expected = str("at least ", longest)});
  const Padded padded{std::max(longest, options.total_length), sequence.batch_sizes.front(),
                      options.batch_first};
  Shape rows = sequence.data.shape();
  rows[0] = padded.steps * padded.batch;
  const Tensor padding = full(rows, options.padding_value,
                              {.dtype = sequence.data.dtype(), .device = sequence.data.device()});
  const Tensor output = index_copy(padding, 0, rows_of(sequence, padded), sequence.data);
  const Shape leading =
      padded.batch_first ? Shape{padded.batch, padded.steps} : Shape{padded.steps, padded.batch};
  return {output.unflatten(0, leading), lengths};
}

}  // namespace mezzo::nn
