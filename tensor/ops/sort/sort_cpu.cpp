// Kernels of the ordering ops: the elements of each line become entries of key and index, which are
// ordered and written out.
#include "sort.h"

#include <algorithm>
#include <vector>

#include "../../core/dispatch.h"
#include "../../cpu/radix_sort.h"
#include "../../device/parallel.h"
#include "../index/index_list_cpu.h"

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
