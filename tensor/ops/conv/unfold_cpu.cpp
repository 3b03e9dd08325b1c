// Kernels of unfold and fold. Each row of columns belongs to one position within the block and is a
// strided window of the image.
#include "unfold.h"

#include <cstring>

#include "../../core/dispatch.h"
#include "../../cpu/block_io.h"
#include "../../cpu/order.h"
#include "../../cpu/word.h"
#include "../../cpu/workspace.h"
#include "../../device/parallel.h"

namespace mezzo::op {

namespace {

using namespace cpu_kernels;

/** The blocks begin .. end - 1 along dimension d whose element k is inside the image; that of block
 *  b is at image position first + b * stride. */
struct Inside {
  std::int64_t begin, end, first;

  Inside(const UnfoldAttrs& attrs, std::size_t d, std::int64_t k)
      : first(k * attrs.dilation[d] - attrs.padding[d]) {
    const std::int64_t s = attrs.stride[d], count = attrs.blocks(d);
    begin = first >= 0 ? 0 : std::min(count, (-first + s - 1) / s);
    end = first >= attrs.sizes[d]
              ? begin
              : std::max(begin, std::min(count, (attrs.sizes[d] - 1 - first) / s + 1));
  }
};

/** Computes one row of columns from one plane. */
template <class Word>
void unfold_row(const UnfoldAttrs& attrs, std::int64_t place, const Word* plane, Word* row) {
  const Inside down(attrs, 0, place / attrs.kernel[1]), across(attrs, 1, place % attrs.kernel[1]);
  const std::int64_t width = attrs.blocks(1), height = attrs.blocks(0), step = attrs.stride[1];
  for (std::int64_t i = 0; i < height; ++i, row += width) {
    std::memset(row, 0, static_cast<std::size_t>(width) * sizeof(Word));
    if (i < down.begin || i >= down.end) continue;
    const Word* const line =
        plane + (down.first + i * attrs.stride[0]) * attrs.sizes[1] + across.first;
    for (std::int64_t j = across.begin; j < across.end; ++j)
      std::memcpy(row + j, line + j * step, sizeof(Word));
  }
}

/** Adds one row of columns to its plane. */
template <class C>
void fold_row(const UnfoldAttrs& attrs, std::int64_t place, const C* row, C* plane) {
  const Inside down(attrs, 0, place / attrs.kernel[1]), across(attrs, 1, place % attrs.kernel[1]);
  const std::int64_t width = attrs.blocks(1), step = attrs.stride[1];
  for (std::int64_t i = down.begin; i < down.end; ++i) {
    C* const line = plane + (down.first + i * attrs.stride[0]) * attrs.sizes[1] + across.first;
    for (std::int64_t j = across.begin; j < across.end; ++j)
      line[j * step] = kPlus(line[j * step], row[i * width + j]);
  }
}

}  // namespace

void Unfold::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  if (out[0].numel() == 0) return;
  const Tensor x = row_major(in[0]);
  const std::int64_t area = attrs.sizes[0] * attrs.sizes[1],
                     columns = attrs.blocks(0) * attrs.blocks(1), places = attrs.places();
  visit_word(x.dtype(), [&]<class Word>(std::type_identity<Word>) {
    const Word* const from = static_cast<const Word*>(x.raw_data());
    Word* const to = static_cast<Word*>(out[0].raw_data());
    parallel_chunks(
        out[0].numel() / columns, std::max<std::int64_t>(1, kElementwiseChunk / columns),
        [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t r = begin; r < end; ++r)
            unfold_row(attrs, r % places, from + r / places * area, to + r * columns);
        },
        static_cast<double>(columns));
  });
}

void Fold::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  if (out[0].numel() == 0) return;
  const Tensor x = row_major(in[0]);
  const std::int64_t area = attrs.sizes[0] * attrs.sizes[1],
                     columns = attrs.blocks(0) * attrs.blocks(1), places = attrs.places();
  visit_compute(x.dtype(), [&]<class C>(std::type_identity<C>) {
    const BlockReader<C> reader(x);
    const BlockWriter<C> writer(out[0]);
    const auto planes = [&](std::int64_t begin, std::int64_t end) {
      const Workspace<C> work(columns + area);
      for (std::int64_t p = begin; p < end; ++p) {
        C* const plane = writer.target(p * area, work.data() + columns);
        std::fill(plane, plane + area, C(0));
        for (std::int64_t place = 0; place < places; ++place)
          fold_row(attrs, place, reader.read((p * places + place) * columns, columns, work.data()),
                   plane);
        writer.write(p * area, area, plane);
      }
    };
    parallel_chunks(out[0].numel() / area,
                    std::max<std::int64_t>(1, kElementwiseChunk / (area + places * columns)),
                    planes, static_cast<double>(area + places * columns));
  });
}

}  // namespace mezzo::op
