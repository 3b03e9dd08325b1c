// The CUDA kernels of the ordering ops: elements are converted to entries of key and index, sorted,
// and the selected ones are written.
#include "../../../tensor/ops/sort/sort.h"

#include <bit>

#include "../../attach.h"
#include "../items.h"
#include "../lines.h"
#include "../words.h"
#include "sort_lines.h"

namespace mezzo::gpu {

namespace {

/** Returns the number of low key bits in which elements can differ. */
int key_bits(DType dtype) { return static_cast<int>(item_size(dtype)) * 8; }

/** Returns true if the keys fit into a NarrowEntry. */
bool narrow(DType dtype) { return key_bits(dtype) <= 32; }

template <class Entry>
__device__ Entry entry_of(const void* data, DType dtype, std::int64_t at, std::int64_t index,
                          bool descending) {
  const auto entry = [&](auto value) {
    return cpu_kernels::sort_entry<Entry>(value, index, descending);
  };
  if constexpr (std::is_same_v<Entry, NarrowEntry>) {
    switch (dtype) {
      case DType::boolean: return entry(static_cast<const std::uint8_t*>(data)[at] != 0);
      case DType::u8: return entry(static_cast<const std::uint8_t*>(data)[at]);
      case DType::i32: return entry(static_cast<const std::int32_t*>(data)[at]);
      case DType::f16: return entry(static_cast<const Half*>(data)[at]);
      case DType::bf16: return entry(static_cast<const BFloat16*>(data)[at]);
      case DType::f32:
      case DType::f64:
      case DType::i64: break;  // the last two have a wide Entry
    }
    return entry(static_cast<const float*>(data)[at]);
  } else {
    if (dtype == DType::i64) return entry(static_cast<const std::int64_t*>(data)[at]);
    return entry(static_cast<const double*>(data)[at]);
  }
}

/** Returns the offset of element i of a line. */
__device__ inline std::int64_t place_on(const Lines& lines, std::int64_t line, std::int64_t i) {
  const Split at(line, lines.inner);
  return (at.quotient * lines.length + i) * lines.inner + at.rest;
}

template <class Entry>
__global__ void __launch_bounds__(kItemThreads)
    entries_kernel(const Lines __grid_constant__ lines, const Array x, bool descending,
                   Entry* entries) {
  const std::int64_t item = item_here();
  if (item >= lines.count * lines.length) return;
  const Split at(item, lines.length);
  const std::int64_t place = lines.inner == 1 ? item : place_on(lines, at.quotient, at.rest);
  entries[item] = entry_of<Entry>(x.data, x.dtype, place, at.rest, descending);
}

/** Writes a line's first `kept` entries with their indices as keys. */
template <class Entry>
__global__ void __launch_bounds__(kItemThreads)
    index_kernel(const Entry* entries, std::int64_t length, std::int64_t kept, std::int64_t lines,
                 WideEntry* by_index) {
  const std::int64_t item = item_here();
  if (item >= lines * kept) return;
  const Split at(item, kept);
  const std::int64_t index = entries[at.quotient * length + at.rest].index();
  by_index[item] = {static_cast<std::uint64_t>(index), static_cast<std::uint64_t>(index)};
}

/** Writes the values and indices of to.length entries of each line, from `skipped` on. */
template <class Entry>
__global__ void __launch_bounds__(kItemThreads)
    write_kernel(const Lines __grid_constant__ from, const Lines __grid_constant__ to,
                 const Entry* entries, std::int64_t stride, std::int64_t skipped, const Array x,
                 void* values, std::int64_t* indices, int bytes) {
  const std::int64_t item = item_here();
  if (item >= to.count * to.length) return;
  const Split at(item, to.length);
  const std::int64_t index = entries[at.quotient * stride + skipped + at.rest].index();
  const std::int64_t place = place_on(to, at.quotient, at.rest);
  copy_word(x.data, place_on(from, at.quotient, index), values, place, bytes);
  indices[place] = index;
}

/** The selected elements of each sorted line. */
struct SortChoice {
  std::int64_t skipped = 0, kept = 0;
  bool descending = false;
  bool by_index = false;  // in the order of their indices
};

template <class Entry>
void order(const Tensor& x, Outputs out, const Lines& from, const Lines& to,
           const SortChoice& choice) {
  const Device device = x.device();
  EntryLines<Entry> entries(from.count, from.length, device);
  launch_over(from.count * from.length, device, &entries_kernel<Entry>, from, Array(x),
              choice.descending, entries.data());
  const int bits = key_bits(x.dtype());
  std::int64_t skipped = choice.skipped;
  if (choice.kept == 1 && select_one(entries, skipped, bits))
    skipped = 0;
  else
    sort_first(entries, skipped + choice.kept, bits);
  const auto write = [&]<class Kept>(const EntryLines<Kept>& kept) {
    launch_over(to.count * to.length, device, &write_kernel<Kept>, from, to, kept.data(),
                kept.length, skipped, Array(x), out[0].raw_data(), out[1].data<std::int64_t>(),
                static_cast<int>(item_size(x.dtype())));
  };
  if (!choice.by_index) return write(entries);
  EntryLines<WideEntry> by_index(to.count, to.length, device);
  launch_over(to.count * to.length, device, &index_kernel<Entry>, entries.data(), entries.length,
              to.length, to.count, by_index.data());
  sort_lines(by_index, std::bit_width(static_cast<std::uint64_t>(from.length)));
  write(by_index);
}

void order_along(const Tensor& operand, Outputs out, int dim, const SortChoice& choice) {
  if (operand.numel() == 0 || choice.kept == 0) return;
  const Tensor x = row_major(operand);
  const Lines from = lines_along(x.shape(), dim);
  Lines to = from;
  to.length = choice.kept;
  if (narrow(x.dtype()) && from.length <= std::int64_t{0xFFFFFFFF})
    return order<NarrowEntry>(x, out, from, to, choice);
  if (narrow(x.dtype()))
    fail<Unsupported>("sort", {.what = "too many elements along the dimension",
                               .expected = "at most 2^32 - 1 for dtypes of up to 32 bits"});
  order<WideEntry>(x, out, from, to, choice);
}

void sort(Inputs in, Outputs out, const op::Sort::Attrs& attrs) {
  const int dim = wrap_dim(attrs.dim, in[0].dim(), "sort");
  const std::int64_t length = in[0].dim() == 0 ? 1 : in[0].shape()[dim];
  order_along(in[0], out, dim, {.kept = length, .descending = attrs.descending});
}

void topk(Inputs in, Outputs out, const op::Topk::Attrs& attrs) {
  order_along(in[0], out, wrap_dim(attrs.dim, in[0].dim(), "topk"),
              {.kept = attrs.k, .descending = attrs.largest, .by_index = !attrs.sorted});
}

void kthvalue(Inputs in, Outputs out, const op::Kthvalue::Attrs& attrs) {
  order_along(in[0], out, wrap_dim(attrs.dim, in[0].dim(), "kthvalue"),
              {.skipped = attrs.k - 1, .kept = 1});
}

}  // namespace

void attach_sort() {
  attach<op::Kthvalue, kthvalue>();
  attach<op::Sort, sort>();
  attach<op::Topk, topk>();
}

}  // namespace mezzo::gpu
