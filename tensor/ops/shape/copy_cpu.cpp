// Kernels of the copying ops: conversion, clone, copy_, fill.
#include "copy.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "../../core/dispatch.h"
#include "../../core/row_major.h"
#include "../../cpu/block_map.h"
#include "../../cpu/convert.h"
#include "../../cpu/transpose.h"
#include "../../cpu/word.h"
#include "../../device/parallel.h"

namespace mezzo {

namespace {

using namespace cpu_kernels;

template <class C>
void identity_block(const C* const* in, C* const* out, std::int64_t n, const void*) {
  std::memcpy(out[0], in[0], static_cast<std::size_t>(n) * sizeof(C));
}

/** The loops of a copy. Adjacent dimensions that are contiguous in both tensors are merged. Strides
 *  are in elements. */
struct CopyLoops {
  int count = 0;
  std::array<std::int64_t, Shape::kMaxRank> size, from, to;
};

/** Returns the loops of a copy, without dimensions of size 1; there is at least one loop. */
CopyLoops loops_of(const Tensor& from, const Tensor& to) {
  CopyLoops loops;
  for (int i = 0; i < from.dim(); ++i) {
    const std::int64_t size = from.shape()[i], stride = from.strides()[i];
    if (size == 1) continue;
    const auto last = static_cast<std::size_t>(loops.count) - 1;
    if (loops.count > 0 && loops.from[last] == stride * size &&
        loops.to[last] == to.strides()[i] * size) {
      loops.size[last] *= size;
      loops.from[last] = stride;
      loops.to[last] = to.strides()[i];
      continue;
    }
    const auto next = static_cast<std::size_t>(loops.count++);
    loops.size[next] = size;
    loops.from[next] = stride;
    loops.to[next] = to.strides()[i];
  }
  if (loops.count == 0) loops = {1, {1}, {1}, {1}};
  return loops;
}

/** Offsets in both tensors. */
struct Place {
  std::int64_t from = 0, to = 0;
};
/** Returns the start of combination `index` of all loops but `skipped` and the last. */
Place place_of(const CopyLoops& loops, int skipped, std::int64_t index) {
  Place place;
  for (int i = loops.count - 2; i >= 0; --i) {
    if (i == skipped) continue;
    const auto k = static_cast<std::size_t>(i);
    place.from += index % loops.size[k] * loops.from[k];
    place.to += index % loops.size[k] * loops.to[k];
    index /= loops.size[k];
  }
  return place;
}

/** Returns the loop that is contiguous in the source if the last one is not, in which case matrices
 *  are transposed; -1 if there is none. */
int transposed_loop(const CopyLoops& loops) {
  if (loops.from[static_cast<std::size_t>(loops.count) - 1] == 1) return -1;
  for (int i = loops.count - 2; i >= 0; --i)
    if (loops.from[static_cast<std::size_t>(i)] == 1) return i;
  return -1;
}

/** Copies panels of 64 source columns, whose target rows are written in full. */
template <class Word>
void copy_transposed(const Word* source, Word* target, const CopyLoops& loops, int loop) {
  constexpr std::int64_t kColumns = 64;
  const auto t = static_cast<std::size_t>(loop), last = static_cast<std::size_t>(loops.count) - 1;
  const std::int64_t rows = loops.size[last], columns = loops.size[t];
  const std::int64_t panels = (columns + kColumns - 1) / kColumns;
  std::int64_t matrices = 1;
  for (int i = 0; i + 1 < loops.count; ++i)
    if (i != loop) matrices *= loops.size[static_cast<std::size_t>(i)];
  const auto panel = [&](std::int64_t task) {
    const std::int64_t column = task % panels * kColumns;
    const Place at = place_of(loops, loop, task / panels);
    transpose(source + at.from + column, loops.from[last], target + at.to + column * loops.to[t],
              loops.to[t], rows, std::min(kColumns, columns - column));
  };
  parallel_for(matrices * panels, panel, static_cast<double>(matrices * rows * columns) * 0.5);
}

/** Copies contiguous runs, or, where a source does not move, repeats its elements. */
template <class Word> void copy_runs(const Word* source, Word* target, const CopyLoops& loops) {
  const auto last = static_cast<std::size_t>(loops.count) - 1;
  const std::int64_t run = loops.size[last];
  const bool repeats = loops.from[last] == 0;
  std::int64_t runs = 1;
  for (int i = 0; i + 1 < loops.count; ++i) runs *= loops.size[static_cast<std::size_t>(i)];
  const auto some = [&](std::int64_t begin, std::int64_t end) {
    std::array<std::int64_t, Shape::kMaxRank> index{};
    std::int64_t rest = begin;
    Place at = place_of(loops, -1, begin);
    for (int i = loops.count - 2; i >= 0; --i) {
      const auto k = static_cast<std::size_t>(i);
      index[k] = rest % loops.size[k];
      rest /= loops.size[k];
    }
    for (std::int64_t r = begin; r < end; ++r) {
      if (repeats)
        std::fill_n(target + at.to, run, source[at.from]);
      else
        std::memcpy(target + at.to, source + at.from, static_cast<std::size_t>(run) * sizeof(Word));
      for (int i = loops.count - 2; i >= 0; --i) {
        const auto k = static_cast<std::size_t>(i);
        at.from += loops.from[k];
        at.to += loops.to[k];
        if (++index[k] < loops.size[k]) break;
        at.from -= loops.size[k] * loops.from[k];
        at.to -= loops.size[k] * loops.to[k];
        index[k] = 0;
      }
    }
  };
  parallel_chunks(runs, std::max<std::int64_t>(1, kElementwiseChunk / run), some,
                  5.0 + static_cast<double>(run) * 0.3);
}

/** Copies without interpreting the elements. Returns false, having done nothing, if the generic
 *  copy is as fast. */
bool copy_words(const Tensor& from, const Tensor& to) {
  const bool plain = from.dtype() == to.dtype() && from.shape() == to.shape();
  if (!plain || from.numel() == 0) return false;
  const CopyLoops loops = loops_of(from, to);
  const auto last = static_cast<std::size_t>(loops.count) - 1;
  const bool runs = loops.from[last] <= 1 && loops.from[last] >= 0 && loops.to[last] == 1 &&
                    loops.size[last] >= 8;
  const int loop = to.is_contiguous() ? transposed_loop(loops) : -1;
  if (loop < 0 && !runs) return false;
  visit_word(from.dtype(), [&]<class Word>(std::type_identity<Word>) {
    const Word* source = static_cast<const Word*>(from.raw_data());
    Word* target = static_cast<Word*>(to.raw_data());
    if (runs)
      copy_runs(source, target, loops);
    else
      copy_transposed(source, target, loops, loop);
  });
  return true;
}

/** Computes out = in, broadcast and converted. Values are held in the source's compute type, so the
 *  store is the only rounding. */
void copy_elements(const Tensor& from, Tensor& to) {
  const bool linear = same_dense_layout(from, to);
  if (!linear && copy_words(from, to)) return;
  const bool images =
      from.shape() == to.shape() && to.memory_format() == MemoryFormat::channels_last;
  if (!linear && images && copy_words(channels_at_end(from), channels_at_end(to))) return;
  if (!linear) {
    constexpr BlockFns identity{&identity_block<float>, &identity_block<double>,
                                &identity_block<std::int64_t>};
    return map_blocks(identity, compute_dtype(from.dtype()), {&from, 1}, {&to, 1}, nullptr);
  }
  const char* source = static_cast<const char*>(from.raw_data());
  char* target = static_cast<char*>(to.raw_data());
  const auto source_item = static_cast<std::int64_t>(item_size(from.dtype())),
             target_item = static_cast<std::int64_t>(item_size(to.dtype()));
  parallel_chunks(from.numel(), kElementwiseChunk, [&](std::int64_t begin, std::int64_t end) {
    convert(from.dtype(), source + begin * source_item, to.dtype(), target + begin * target_item,
            end - begin);
  });
}

}  // namespace

namespace op {

void To::cpu(Inputs in, Outputs out, const Attrs&) { copy_elements(in[0], out[0]); }

void Clone::cpu(Inputs in, Outputs out, const Attrs&) { copy_elements(in[0], out[0]); }

void Copy::cpu(Inputs in, Outputs out, const Attrs&) { copy_elements(in[1], out[0]); }

/** Fills a dense tensor without allocating memory, so that zeroing the gradients of many tensors
 *  cannot fail halfway. */
void Fill::cpu(Inputs, Outputs out, const Attrs& attrs) {
  Tensor& x = out[0];
  if (!same_dense_layout(x, x)) return copy_elements(scalar_operand(attrs.value), x);
  alignas(8) std::byte element[8];
  convert(DType::f64, &attrs.value, x.dtype(), element, 1);
  visit_word(x.dtype(), [&]<class Word>(std::type_identity<Word>) {
    Word word;
    std::memcpy(&word, element, sizeof word);
    Word* to = static_cast<Word*>(x.raw_data());
    parallel_chunks(x.numel(), kElementwiseChunk, [&](std::int64_t begin, std::int64_t end) {
      std::fill(to + begin, to + end, word);
    });
  });
}

}  // namespace op

}  // namespace mezzo
