// Kernels of the ops that copy each element from one position: runs of elements are copied row by
// row. The adjoint is a separable sum.
#include "place.h"

#include <cstring>

#include "../../core/dispatch.h"
#include "../../core/row_major.h"
#include "../../cpu/block_io.h"
#include "../../cpu/word.h"
#include "../../device/parallel.h"
#include "../index/index_list_cpu.h"
#include "../resize/separable_cpu.h"

namespace mezzo::op {

namespace {

using namespace cpu_kernels;

/** Adjacent positions of the result whose sources are `step` apart, or which have no source and
 *  hold the constant. */
struct Run {
  std::int64_t at, length, source, step;
  bool absent() const { return source < 0; }
};

std::vector<Run> runs_of(const PlaceDim& dim, std::int64_t n) {
  std::vector<Run> runs;
  for (std::int64_t o = 0; o < dim.size; ++o) {
    const std::int64_t source = place_source(dim, n, o);
    Run* const last = runs.empty() ? nullptr : &runs.back();
    const bool absent_too = last && last->absent() && source < 0;
    const bool both_there = last && !last->absent() && source >= 0;
    if (both_there && last->length == 1) last->step = source - last->source;
    if (absent_too || (both_there && source == last->source + last->length * last->step))
      ++last->length;
    else
      runs.push_back({o, 1, source, 1});
  }
  return runs;
}

bool is_whole(const PlaceDim& dim, std::int64_t n) {
  return dim.mode == PlaceMode::inside && dim.begin == 0 && dim.size == n;
}

/** Trailing dimensions that are copied whole form one contiguous block. */
struct BlockShape {
  int dims;  // before the block
  std::int64_t block = 1;

  BlockShape(const Tensor& x, const PlaceAttrs& attrs) : dims(x.dim()) {
    while (dims > 1 && x.strides()[dims - 1] == block &&
           is_whole(attrs.dims[static_cast<std::size_t>(dims - 1)], x.shape()[dims - 1]))
      block *= x.shape()[--dims];
  }
};

/** Returns the source offset of every row (all dimensions before the block but the last); -1 if the
 *  row holds constants only. */
std::vector<std::int64_t> row_offsets(const Tensor& x, const PlaceAttrs& attrs, int dims) {
  std::vector<std::int64_t> table{0};
  for (int d = 0; d + 1 < dims; ++d) {
    const PlaceDim& dim = attrs.dims[static_cast<std::size_t>(d)];
    std::vector<std::int64_t> next;
    next.reserve(table.size() * static_cast<std::size_t>(dim.size));
    for (const std::int64_t base : table)
      for (std::int64_t o = 0; o < dim.size; ++o) {
        const std::int64_t i = place_source(dim, x.shape()[d], o);
        next.push_back(base < 0 || i < 0 ? -1 : base + i * x.strides()[d]);
      }
    table = std::move(next);
  }
  return table;
}

template <class Word>
void copy_run(const Word* from, Word* to, const Run& run, std::int64_t stride, std::int64_t block) {
  from += run.source * stride;
  // In a variable of its own, which no store can change.
  const std::int64_t step = run.step * stride, length = run.length;
  if (step == block) {
    std::memcpy(to, from, static_cast<std::size_t>(length * block) * sizeof(Word));
  } else if (block == 1 && step == -1) {  // a constant step, so that the loop is vectorised
    for (std::int64_t k = 0; k < length; ++k) std::memcpy(to + k, from - k, sizeof(Word));
  } else if (block == 1) {
    for (std::int64_t k = 0; k < length; ++k) std::memcpy(to + k, from + k * step, sizeof(Word));
  } else {
    for (std::int64_t k = 0; k < length; ++k)
      std::memcpy(to + k * block, from + k * step, static_cast<std::size_t>(block) * sizeof(Word));
  }
}

template <class Word> void place(const Tensor& x, const Tensor& y, const PlaceAttrs& attrs) {
  const BlockShape blocks(x, attrs);
  const int last = blocks.dims - 1;
  const std::vector<Run> runs =
      runs_of(attrs.dims[static_cast<std::size_t>(last)], x.shape()[last]);
  const std::vector<std::int64_t> rows = row_offsets(x, attrs, blocks.dims);
  Word constant;
  convert(DType::f64, &attrs.value, y.dtype(), &constant, 1);
  const std::int64_t stride = x.strides()[last], block = blocks.block,
                     width = attrs.dims[static_cast<std::size_t>(last)].size * block;
  const Word* const from = static_cast<const Word*>(x.raw_data());
  Word* const to = static_cast<Word*>(y.raw_data());
  const auto one_row = [&](std::int64_t row) {
    const std::int64_t offset = rows[static_cast<std::size_t>(row)];
    for (const Run& run : runs) {
      Word* const place = to + row * width + run.at * block;
      if (offset < 0 || run.absent())
        std::fill(place, place + run.length * block, constant);
      else
        copy_run(from + offset, place, run, stride, block);
    }
  };
  parallel_chunks(
      static_cast<std::int64_t>(rows.size()), std::max<std::int64_t>(1, kElementwiseChunk / width),
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) one_row(row);
      },
      static_cast<double>(width) * 0.5);
}

}  // namespace

void PlaceFunctions::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  if (out[0].numel() == 0) return;
  PlaceAttrs places = attrs;
  if (in[0].dim() == 0) places.dims[0].size = 1;
  Tensor x = at_least_1d(in[0]), y = at_least_1d(out[0]);
  if (!y.is_contiguous()) {
    places = channels_at_end(attrs, x.dim());
    x = mezzo::channels_at_end(x);
    y = mezzo::channels_at_end(y);
  }
  visit_word(y.dtype(), [&]<class Word>(std::type_identity<Word>) { place<Word>(x, y, places); });
}

void PlaceBackward::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  if (out[0].numel() == 0) return;
  visit_floating_compute(out[0].dtype(), [&]<class C>(std::type_identity<C>) {
    const CastScope no_casts(nullptr);
    const bool direct = out[0].dtype() == dtype_of<C>() && out[0].is_contiguous();
    const Tensor total = direct ? out[0] : empty_tensor(attrs.sizes, dtype_of<C>(), mezzo::cpu);
    if (in[0].numel() == 0) {
      std::fill(total.data<C>(), total.data<C>() + total.numel(), C(0));
    } else {
      std::vector<SparseRows<C>> maps;
      for (int d = 0; d < attrs.sizes.rank(); ++d) {
        const PlaceDim& dim = attrs.place.dims[static_cast<std::size_t>(d)];
        SparseRows<C> map(attrs.sizes[d]);
        for (std::int64_t o = 0; o < dim.size; ++o) {
          const std::int64_t i = place_source(dim, attrs.sizes[d], o);
          if (i >= 0) map.add(i, 1);
          map.finish_row();
        }
        maps.push_back(map.transposed());
      }
      const Tensor g = row_major(in[0]).to(dtype_of<C>());
      map_separably(maps, g.template data<C>(), total.data<C>());
    }
    if (!total.is_same(out[0])) copy_values(total, out[0]);
  });
}

}  // namespace mezzo::op
