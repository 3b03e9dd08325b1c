// Kernels of the ordering ops: the elements of each line become entries of key and index, which are
// ordered and written out.
#include "sort.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "../../core/dispatch.h"
#include "../../cpu/sort_key.h"
#include "../../device/parallel.h"
#include "../index/index_list_cpu.h"

namespace mezzo::cpu_kernels {

namespace detail {

/** The number of entries with each value of each byte of the key; [0] is the lowest byte. */
template <class Entry>
using ByteCounts =
    std::array<std::array<std::size_t, 256>, static_cast<std::size_t>(Entry::kKeyBytes)>;

template <class Entry> std::size_t key_byte(const Entry& entry, std::size_t byte) {
  return static_cast<std::size_t>(entry.sorted_by() >> (8 * byte) & 0xFF);
}

template <class Entry> ByteCounts<Entry> count_bytes(const std::vector<Entry>& entries) {
  ByteCounts<Entry> counts{};
  for (const Entry& entry : entries)
    for (std::size_t byte = 0; byte < counts.size(); ++byte) ++counts[byte][key_byte(entry, byte)];
  return counts;
}

}  // namespace detail

/** Sorts entries that are in the order of their index: by a byte of the key at a time, from the
 *  lowest on, each time keeping the order of entries with equal bytes. Bytes that are the same in
 *  all keys cost nothing. */
template <class Entry> void sort_entries(std::vector<Entry>& entries) {
  constexpr std::size_t kShort = 256;  // counting bytes would take longer than std::sort
  if (entries.size() < kShort) return std::sort(entries.begin(), entries.end());
  auto counts = detail::count_bytes(entries);
  std::vector<Entry> sorted(entries.size());
  for (std::size_t byte = 0; byte < counts.size(); ++byte) {
    auto& next = counts[byte];  // becomes the place of the next entry with each value
    if (next[detail::key_byte(entries[0], byte)] == entries.size()) continue;
    std::size_t first = 0;
    for (std::size_t& place : next) {
      const std::size_t count = place;
      place = first;
      first += count;
    }
    for (const Entry& entry : entries) sorted[next[detail::key_byte(entry, byte)]++] = entry;
    entries.swap(sorted);
  }
}

}  // namespace mezzo::cpu_kernels

namespace mezzo::op {

namespace {

using namespace cpu_kernels;

/** The offsets of a tensor's lines, and the stride along them. */
struct LineStarts {
  std::vector<std::int64_t> starts;
  std::int64_t step = 1;

  LineStarts(const Tensor& x, int dim) : step(x.strides()[dim]) {
    Shape sizes = x.shape(), strides = x.strides();
    sizes.erase(dim);
    strides.erase(dim);
    starts = offset_table(sizes, strides);
  }
};

/** Calls order(entries) for every line of x. It must move `kept` selected entries to the front,
 *  after `skipped` others; their values and indices are written. */
template <class Entry, class T, class F>
void order_lines(const Tensor& x, Outputs out, int dim, std::int64_t skipped, std::int64_t kept,
                 bool descending, F&& order) {
  const LineStarts from(x, dim), to(out[0], dim);
  const std::int64_t length = x.shape()[dim];
  const T* data = static_cast<const T*>(x.raw_data());
  T* values = static_cast<T*>(out[0].raw_data());
  std::int64_t* indices = out[1].data<std::int64_t>();
  const auto one_line = [&](std::size_t line, std::vector<Entry>& entries) {
    const T* const elements = data + from.starts[line];
    for (std::int64_t i = 0; i < length; ++i)
      entries[static_cast<std::size_t>(i)] =
          sort_entry<Entry>(elements[i * from.step], i, descending);
    order(entries);
    for (std::int64_t i = 0; i < kept; ++i) {
      const std::int64_t index = entries[static_cast<std::size_t>(skipped + i)].index();
      values[to.starts[line] + i * to.step] = elements[index * from.step];
      indices[to.starts[line] + i * to.step] = index;
    }
  };
  parallel_chunks(
      static_cast<std::int64_t>(from.starts.size()),
      std::max<std::int64_t>(1, kElementwiseChunk / 4 / (length + 1)),
      [&](std::int64_t begin, std::int64_t end) {
        std::vector<Entry> entries(static_cast<std::size_t>(length));
        for (std::int64_t line = begin; line < end; ++line)
          one_line(static_cast<std::size_t>(line), entries);
      },
      static_cast<double>(length) * 20);
}

/** Views a 0-dim operand and its outputs as 1-D and selects the entry type. */
template <class F>
void order_tensor(const Tensor& raw, Outputs out, int dim, std::int64_t skipped, std::int64_t kept,
                  bool descending, F&& order) {
  if (raw.numel() == 0 || kept == 0) return;
  const Tensor x = at_least_1d(raw);
  Tensor results[] = {at_least_1d(out[0]), at_least_1d(out[1])};
  visit_dtype(x.dtype(), [&]<class T>(std::type_identity<T>) {
    constexpr bool narrow = sizeof(sort_key(T{})) == 4;
    if (narrow && x.shape()[dim] <= std::int64_t{0xFFFFFFFF})
      order_lines<std::conditional_t<narrow, NarrowEntry, WideEntry>, T>(x, results, dim, skipped,
                                                                         kept, descending, order);
    else
      order_lines<WideEntry, T>(x, results, dim, skipped, kept, descending, order);
  });
}

}  // namespace

void Sort::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  const int dim = wrap_dim(attrs.dim, in[0].dim(), "sort");
  const std::int64_t length = in[0].dim() == 0 ? 1 : in[0].shape()[dim];
  order_tensor(in[0], out, dim, 0, length, attrs.descending,
               [](auto& entries) { sort_entries(entries); });
}

void Topk::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  const int dim = wrap_dim(attrs.dim, in[0].dim(), "topk");
  order_tensor(in[0], out, dim, 0, attrs.k, attrs.largest, [&attrs](auto& entries) {
    const auto end = entries.begin() + attrs.k;
    // A heap of few entries seldom changes; for more entries, partitioning is faster.
    constexpr std::int64_t kSeldom = 64;
    const bool few = attrs.k <= static_cast<std::int64_t>(entries.size()) / kSeldom;
    if (few)
      std::partial_sort(entries.begin(), end, entries.end());
    else
      std::nth_element(entries.begin(), end - 1, entries.end());
    if (attrs.sorted && !few)
      std::sort(entries.begin(), end);
    else if (!attrs.sorted)
      std::sort(entries.begin(), end,
                [](const auto& a, const auto& b) { return a.index() < b.index(); });
  });
}

void Kthvalue::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  const int dim = wrap_dim(attrs.dim, in[0].dim(), "kthvalue");
  Tensor kept[] = {out[0], out[1]};
  if (!attrs.keepdim && in[0].dim() > 0)
    for (Tensor& y : kept) {
      Shape shape = y.shape();
      shape.insert(dim, 1);
      y = alias(y, shape, contiguous_strides(shape), y.impl()->offset);
    }
  order_tensor(in[0], kept, dim, attrs.k - 1, 1, false, [&attrs](auto& entries) {
    std::nth_element(entries.begin(), entries.begin() + (attrs.k - 1), entries.end());
  });
}

}  // namespace mezzo::op
