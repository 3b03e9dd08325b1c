#include "block_rows.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "../device/parallel.h"
#include "../ops/index/index_list_cpu.h"
#include "convert.h"
#include "order.h"
#include "word.h"

namespace mezzo::cpu_kernels {

namespace {

std::vector<std::int64_t> offsets_of(const Tensor& x, const Shape& dims) {
  Shape sizes, strides;
  for (const std::int64_t d : dims) {
    sizes.push_back(x.shape()[d]);
    strides.push_back(x.strides()[d]);
  }
  return offset_table(sizes, strides);
}

bool counts_up(const std::vector<std::int64_t>& table) {
  for (std::size_t i = 0; i < table.size(); ++i)
    if (table[i] != static_cast<std::int64_t>(i)) return false;
  return true;
}

/** Returns the offset of a row-major position in the indexed dimensions. */
std::int64_t offset_at(const Tensor& x, const Shape& indexed, std::int64_t position) {
  std::int64_t offset = 0;
  for (int i = indexed.rank() - 1; i > 0; --i) {
    const std::int64_t size = x.shape()[indexed[i]];
    offset += position % size * x.strides()[indexed[i]];
    position /= size;
  }
  return indexed.empty() ? 0 : offset + position * x.strides()[indexed[0]];
}

Shape range(int begin, int end) {
  Shape dims;
  for (int i = begin; i < end; ++i) dims.push_back(i);
  return dims;
}

}  // namespace

Blocks Blocks::indexed(const Tensor& x, const op::IndexedDims& dims, const Tensor& positions) {
  Blocks blocks{static_cast<char*>(x.raw_data()),
                x.dtype(),
                offsets_of(x, dims.before),
                {},
                offsets_of(x, dims.after)};
  const std::int64_t* at = positions.data<std::int64_t>();
  blocks.rows.reserve(static_cast<std::size_t>(positions.numel()));
  for (std::int64_t i = 0; i < positions.numel(); ++i)
    blocks.rows.push_back(offset_at(x, dims.indexed, at[i]));
  blocks.side_by_side = counts_up(blocks.inner);
  return blocks;
}

Blocks Blocks::plain(const Tensor& y, int before, int positions_rank) {
  Blocks blocks{static_cast<char*>(y.raw_data()), y.dtype(), offsets_of(y, range(0, before)),
                offsets_of(y, range(before, before + positions_rank)),
                offsets_of(y, range(before + positions_rank, y.dim()))};
  blocks.side_by_side = counts_up(blocks.inner);
  return blocks;
}

// ---- moving -------------------------------------------------------------------------------------

namespace {

/** Moves columns first..last-1 of rows begin..end-1, in that order, at one outer index. */
template <class Word>
void move_rows(const Blocks& from, const Blocks& to, std::int64_t outer, std::int64_t begin,
               std::int64_t end, std::int64_t first, std::int64_t last) {
  const Word* const source =
      reinterpret_cast<const Word*>(from.data) + from.outer[static_cast<std::size_t>(outer)];
  Word* const target = reinterpret_cast<Word*>(to.data) + to.outer[static_cast<std::size_t>(outer)];
  const std::int64_t *from_rows = from.rows.data(), *to_rows = to.rows.data();
  const std::int64_t *from_inner = from.inner.data(), *to_inner = to.inner.data();
  if (last - first == 1) {
    const Word* const x = source + from_inner[first];
    Word* const y = target + to_inner[first];
    for (std::int64_t r = begin; r < end; ++r)
      std::memcpy(y + to_rows[r], x + from_rows[r], sizeof(Word));
  } else if (from.side_by_side && to.side_by_side) {
    const std::size_t bytes = static_cast<std::size_t>(last - first) * sizeof(Word);
    for (std::int64_t r = begin; r < end; ++r)
      std::memcpy(target + to_rows[r] + first, source + from_rows[r] + first, bytes);
  } else {
    for (std::int64_t r = begin; r < end; ++r)
      for (std::int64_t k = first; k < last; ++k)
        std::memcpy(target + to_rows[r] + to_inner[k], source + from_rows[r] + from_inner[k],
                    sizeof(Word));
  }
}

}  // namespace

void move_blocks(const Blocks& from, const Blocks& to) {
  const auto rows = static_cast<std::int64_t>(to.rows.size()),
             width = static_cast<std::int64_t>(to.inner.size());
  if (to.numel() == 0) return;
  visit_word(to.dtype, [&]<class Word>(std::type_identity<Word>) {
    parallel_chunks(
        static_cast<std::int64_t>(to.outer.size()) * rows,
        std::max<std::int64_t>(1, kElementwiseChunk / width),
        [&](std::int64_t at, std::int64_t end) {
          while (at < end) {
            const std::int64_t row = at % rows, last = std::min(rows, row + (end - at));
            move_rows<Word>(from, to, at / rows, row, last, 0, width);
            at += last - row;
          }
        },
        static_cast<double>(width) * 0.3 + 2);
  });
}

void put_blocks(const Blocks& from, const Blocks& to) {
  const auto rows = static_cast<std::int64_t>(to.rows.size()),
             width = static_cast<std::int64_t>(to.inner.size());
  if (to.numel() == 0) return;
  // Rows with the same destination must be written in order, so one task processes all rows of a
  // strip of columns.
  constexpr std::int64_t kStrip = 1024;
  const std::int64_t strips = (width + kStrip - 1) / kStrip;
  visit_word(to.dtype, [&]<class Word>(std::type_identity<Word>) {
    parallel_for(
        static_cast<std::int64_t>(to.outer.size()) * strips,
        [&](std::int64_t panel) {
          const std::int64_t first = panel % strips * kStrip,
                             last = std::min(width, first + kStrip);
          move_rows<Word>(from, to, panel / strips, 0, rows, first, last);
        },
        static_cast<double>(to.numel()) * 0.5);
  });
}

// ---- adding -------------------------------------------------------------------------------------

RowGroups::RowGroups(const Tensor& positions, std::int64_t size, std::int64_t skipped) {
  const std::int64_t* at = positions.data<std::int64_t>();
  const std::int64_t n = positions.numel();
  // Counting is faster than sorting unless there are many more positions than rows.
  if (size <= 8 * n + 1024) {
    std::vector<std::int64_t> next(static_cast<std::size_t>(size) + 1, 0);
    for (std::int64_t i = 0; i < n; ++i)
      next[static_cast<std::size_t>(at[i]) + 1] += at[i] != skipped;
    for (std::size_t p = 0; p < static_cast<std::size_t>(size); ++p) {
      if (next[p + 1] > 0) start.push_back(next[p]);
      next[p + 1] += next[p];
    }
    order.resize(static_cast<std::size_t>(next.back()));
    for (std::int64_t i = 0; i < n; ++i)
      if (at[i] != skipped)
        order[static_cast<std::size_t>(next[static_cast<std::size_t>(at[i])]++)] = i;
  } else {
    for (std::int64_t i = 0; i < n; ++i)
      if (at[i] != skipped) order.push_back(i);
    std::stable_sort(order.begin(), order.end(),
                     [at](std::int64_t a, std::int64_t b) { return at[a] < at[b]; });
    for (std::size_t i = 0; i < order.size(); ++i)
      if (i == 0 || at[order[i]] != at[order[i - 1]]) start.push_back(static_cast<std::int64_t>(i));
  }
  start.push_back(static_cast<std::int64_t>(order.size()));
}

namespace {

constexpr std::int64_t kPiece = 512;  // columns summed at a time; the sums fit the L1 cache

/** Returns n elements of a block from column k on in the compute type: in place, or converted into
 *  `buffer`. */
template <class C>
const C* read(const Blocks& x, std::int64_t offset, std::int64_t k, std::int64_t n, C* buffer) {
  if (x.side_by_side) {
    const char* at = x.data + (offset + k) * static_cast<std::int64_t>(item_size(x.dtype));
    if (x.dtype == dtype_of<C>()) return reinterpret_cast<const C*>(at);
    convert(x.dtype, at, dtype_of<C>(), buffer, n);
    return buffer;
  }
  std::uint64_t scratch[kPiece];
  visit_word(x.dtype, [&]<class Word>(std::type_identity<Word>) {
    const Word* data = reinterpret_cast<const Word*>(x.data) + offset;
    Word* side_by_side = reinterpret_cast<Word*>(scratch);
    for (std::int64_t i = 0; i < n; ++i)
      std::memcpy(side_by_side + i, data + x.inner[static_cast<std::size_t>(k + i)], sizeof(Word));
  });
  convert(x.dtype, scratch, dtype_of<C>(), buffer, n);
  return buffer;
}

template <class C>
void write(const Blocks& x, std::int64_t offset, std::int64_t k, std::int64_t n, const C* values) {
  if (x.side_by_side) {
    convert(dtype_of<C>(), values, x.dtype,
            x.data + (offset + k) * static_cast<std::int64_t>(item_size(x.dtype)), n);
    return;
  }
  std::uint64_t scratch[kPiece];
  convert(dtype_of<C>(), values, x.dtype, scratch, n);
  visit_word(x.dtype, [&]<class Word>(std::type_identity<Word>) {
    Word* data = reinterpret_cast<Word*>(x.data) + offset;
    const Word* side_by_side = reinterpret_cast<const Word*>(scratch);
    for (std::int64_t i = 0; i < n; ++i)
      std::memcpy(data + x.inner[static_cast<std::size_t>(k + i)], side_by_side + i, sizeof(Word));
  });
}

/** Computes one group's sum over columns k..k+n-1. */
template <class C>
void add_piece(const Blocks& from, std::size_t outer, const Blocks& to, std::int64_t target,
               std::span<const std::int64_t> members, std::int64_t k, std::int64_t n,
               const AddRows& how) {
  C sum[kPiece], buffer[kPiece];
  const C alpha = static_cast<C>(how.alpha);
  if (how.overwrite)
    std::fill(sum, sum + n, C{0});
  else
    std::copy_n(read<C>(to, target, k, n, buffer), n, sum);
  for (const std::int64_t row : members) {
    const C* value =
        read<C>(from, from.outer[outer] + from.rows[static_cast<std::size_t>(row)], k, n, buffer);
    for (std::int64_t i = 0; i < n; ++i) sum[i] = kPlus(sum[i], kTimes(alpha, value[i]));
  }
  if (how.average)
    for (std::int64_t i = 0; i < n; ++i) sum[i] /= static_cast<C>(members.size());
  write<C>(to, target, k, n, sum);
}

template <class C>
void add_groups(const Blocks& from, const Blocks& to, const RowGroups& groups, const AddRows& how) {
  const auto width = static_cast<std::int64_t>(to.inner.size());
  const std::int64_t mean_work =
      static_cast<std::int64_t>(groups.order.size()) / groups.count() * width;
  const auto one = [&](std::int64_t item) {
    const auto outer = static_cast<std::size_t>(item / groups.count()),
               g = static_cast<std::size_t>(item % groups.count());
    const std::span<const std::int64_t> members(
        groups.order.data() + groups.start[g],
        static_cast<std::size_t>(groups.start[g + 1] - groups.start[g]));
    const std::int64_t target = to.outer[outer] + to.rows[static_cast<std::size_t>(members[0])];
    for (std::int64_t k = 0; k < width; k += kPiece)
      add_piece<C>(from, outer, to, target, members, k, std::min(kPiece, width - k), how);
  };
  parallel_chunks(
      static_cast<std::int64_t>(to.outer.size()) * groups.count(),
      std::max<std::int64_t>(1, kElementwiseChunk / std::max<std::int64_t>(1, mean_work)),
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) one(i);
      },
      static_cast<double>(mean_work) * 0.5 + 20);
}

}  // namespace

void add_blocks(const Blocks& from, const Blocks& to, const RowGroups& groups, DType compute,
                const AddRows& how) {
  if (to.numel() == 0 || groups.count() == 0) return;
  if (compute == DType::f32)
    add_groups<float>(from, to, groups, how);
  else if (compute == DType::f64)
    add_groups<double>(from, to, groups, how);
  else
    add_groups<std::int64_t>(from, to, groups, how);
}

}  // namespace mezzo::cpu_kernels
