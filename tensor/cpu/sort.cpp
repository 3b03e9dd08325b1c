// Kernels of the ordering ops: each line along the dimension is turned into entries of key and index, ordered, and written out.
#include "../ops/sort.h"

#include <algorithm>
#include <vector>

#include "../dispatch.h"
#include "../parallel.h"
#include "index_list.h"
#include "sort_key.h"

namespace mezzo::op {

namespace {

using namespace cpu_kernels;

/** Where the lines of a tensor start, and the step within them. */
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

/** Calls order(entries) for every line of x, which leaves `kept` chosen entries in front (after `skipped`), and writes their values and indices. */
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
      entries[static_cast<std::size_t>(i)] = sort_entry<Entry>(elements[i * from.step], i, descending);
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
        for (std::int64_t line = begin; line < end; ++line) one_line(static_cast<std::size_t>(line), entries);
      },
      static_cast<double>(length) * 20);
}

/** Views the outputs of a 0-dim operand as 1-dim and picks the entry type. */
template <class F>
void order_tensor(const Tensor& raw, Outputs out, int dim, std::int64_t skipped, std::int64_t kept,
                  bool descending, F&& order) {
  if (raw.numel() == 0 || kept == 0) return;
  const Tensor x = at_least_1d(raw);
  Tensor results[] = {at_least_1d(out[0]), at_least_1d(out[1])};
  visit_dtype(x.dtype(), [&]<class T>(std::type_identity<T>) {
    constexpr bool narrow = sizeof(sort_key(T{})) == 4;
    if (narrow && x.shape()[dim] <= std::int64_t{0xFFFFFFFF})
      order_lines<std::conditional_t<narrow, NarrowEntry, WideEntry>, T>(x, results, dim, skipped, kept,
                                                                         descending, order);
    else
      order_lines<WideEntry, T>(x, results, dim, skipped, kept, descending, order);
  });
}

}  // namespace

void Sort::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  const int dim = wrap_dim(attrs.dim, in[0].dim(), "sort");
  const std::int64_t length = in[0].dim() == 0 ? 1 : in[0].shape()[dim];
  order_tensor(in[0], out, dim, 0, length, attrs.descending,
               [](auto& entries) { std::sort(entries.begin(), entries.end()); });
}

void Topk::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  const int dim = wrap_dim(attrs.dim, in[0].dim(), "topk");
  order_tensor(in[0], out, dim, 0, attrs.k, attrs.largest, [&attrs](auto& entries) {
    const auto end = entries.begin() + attrs.k;
    std::nth_element(entries.begin(), end - 1, entries.end());
    if (attrs.sorted)
      std::sort(entries.begin(), end);
    else
      std::sort(entries.begin(), end, [](const auto& a, const auto& b) { return a.index() < b.index(); });
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
