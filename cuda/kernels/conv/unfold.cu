// The CUDA kernels of unfold and fold.
#include "../../../tensor/ops/conv/unfold.h"

#include <algorithm>

#include "../../../tensor/cpu/word.h"
#include "../../attach.h"
#include "../host_map.h"
#include "../items.h"
#include "../lines.h"

namespace mezzo::gpu {

namespace {

/** Divides numbers from 0 to `end` - 1 by a constant, without a division if they are below 2^31. */
struct Division {
  std::int64_t by;
  bool is_fast;
  Divider divider;

  Division(std::int64_t divisor, std::int64_t end)
      : by(divisor), is_fast(std::max(divisor, end) <= std::int64_t{1} << 31) {
    if (is_fast) divider = Divider(static_cast<std::uint32_t>(divisor));
  }
  /** Returns the quotient and sets the remainder. */
  __device__ std::int64_t operator()(std::int64_t n, std::int64_t& rest) const {
    if (!is_fast) return divided(n, by, rest);
    const std::uint32_t value = static_cast<std::uint32_t>(n), quotient = divider.quotient(value);
    rest = value - quotient * divider.by;
    return quotient;
  }
};

/** Images [plane][height][width], and their blocks as columns
 *  [plane][position in the block][block]. A thread computes a unit of a result: kRun adjacent
 *  elements of a row of an image, or of a row of blocks. */
struct Columns {
  op::UnfoldAttrs attrs;
  std::int64_t down, across;  // blocks
  std::int64_t length, rows;  // of a row of the result; rows
  std::int64_t units;
  Division in_row, in_image;  // units of a row, rows of an image or of the blocks at a position
  Division in_kernel;         // positions along the width
  Division steps[2];          // strides

  /** For unfold or fold with this number of results. */
  Columns(const op::UnfoldAttrs& a, bool is_fold, std::int64_t results)
      : attrs(a),
        down(a.blocks(0)),
        across(a.blocks(1)),
        length(is_fold ? a.sizes[1] : across),
        rows(results / length),
        units(rows * blocks_for(length, kRun)),
        in_row(blocks_for(length, kRun), units),
        in_image(is_fold ? a.sizes[0] : down, rows),
        in_kernel(a.kernel[1], rows),
        steps{{a.stride[0], a.sizes[0] + a.padding[0]}, {a.stride[1], a.sizes[1] + a.padding[1]}} {}

  __device__ std::int64_t height() const { return attrs.sizes[0]; }
  __device__ std::int64_t width() const { return attrs.sizes[1]; }
  /** Returns the image coordinate along dimension d of position k of block b; it may be outside. */
  __device__ std::int64_t reached(std::size_t d, std::int64_t b, std::int64_t k) const {
    return b * attrs.stride[d] - attrs.padding[d] + k * attrs.dilation[d];
  }
  /** Returns the block whose position k is at `position` along dimension d; -1 for none. */
  __device__ std::int64_t reaching(std::size_t d, std::int64_t position, std::int64_t k) const {
    const std::int64_t distance = position + attrs.padding[d] - k * attrs.dilation[d];
    if (distance < 0) return -1;
    std::int64_t rest;
    const std::int64_t block = steps[d](distance, rest);
    return rest == 0 && block < (d == 0 ? down : across) ? block : -1;
  }
};

template <class Word>
__global__ void __launch_bounds__(kItemThreads)
    unfold_kernel(const Columns __grid_constant__ columns, const Word* x, Word* y) {
  const std::int64_t unit = item_here();
  if (unit >= columns.units) return;
  std::int64_t run, by, kx, ky;
  const std::int64_t row = columns.in_row(unit, run);
  const std::int64_t position = columns.in_kernel(columns.in_image(row, by), kx);
  const std::int64_t plane = divided(position, columns.attrs.kernel[0], ky);
  const std::int64_t image_row = columns.reached(0, by, ky), first = run * kRun;
  const bool has_row = image_row >= 0 && image_row < columns.height();
  const Word* const from =
      x + (plane * columns.height() + (has_row ? image_row : 0)) * columns.width();
  Pack<Word, kRun> values;
#pragma unroll
  for (int k = 0; k < kRun; ++k) {
    const std::int64_t column = columns.reached(1, first + k, kx);
    const bool exists = has_row && column >= 0 && column < columns.width();
    values.item[k] = exists ? from[column] : Word{};
  }
  Word* const to = y + row * columns.across + first;
  if (columns.across % kRun == 0) {
    *reinterpret_cast<Pack<Word, kRun>*>(to) = values;
    return;
  }
#pragma unroll
  for (int k = 0; k < kRun; ++k)
    if (first + k < columns.across) to[k] = values.item[k];
}

void unfold(Inputs in, Outputs out, const op::UnfoldAttrs& attrs) {
  if (out[0].numel() == 0) return;
  const Tensor x = row_major(in[0]);
  const Columns columns(attrs, false, out[0].numel());
  cpu_kernels::visit_word(x.dtype(), [&]<class Word>(std::type_identity<Word>) {
    launch_over(columns.units, x.device(), &unfold_kernel<Word>, columns,
                static_cast<const Word*>(x.raw_data()), static_cast<Word*>(out[0].raw_data()));
  });
}

/** Loads an element converted to C. A bool may be any byte. */
template <class C, class T> __device__ inline C value_of(const T* x) {
  if constexpr (std::is_same_v<T, bool>)
    return static_cast<C>(*reinterpret_cast<const std::uint8_t*>(x) != 0);
  else
    return element_as<C>(*x);
}

/** Sums the blocks over each element of the image, in the order of its positions in them. */
template <class C, class T>
__global__ void __launch_bounds__(kItemThreads)
    fold_kernel(const Columns __grid_constant__ columns, const T* x, T* image) {
  const std::int64_t unit = item_here();
  if (unit >= columns.units) return;
  std::int64_t run, y;
  const std::int64_t row = columns.in_row(unit, run), plane = columns.in_image(row, y),
                     first = run * kRun;
  const std::int64_t height = columns.attrs.kernel[0], width = columns.attrs.kernel[1],
                     blocks = columns.down * columns.across;
  C sums[kRun] = {};
  for (std::int64_t i = 0; i < height; ++i) {
    const std::int64_t by = columns.reaching(0, y, i);
    if (by < 0) continue;
    for (std::int64_t j = 0; j < width; ++j) {
      const T* const from = x + ((plane * height + i) * width + j) * blocks + by * columns.across;
#pragma unroll
      for (int k = 0; k < kRun; ++k) {
        const std::int64_t bx = columns.reaching(1, first + k, j);
        if (bx >= 0) sums[k] = static_cast<C>(sums[k] + value_of<C>(from + bx));
      }
    }
  }
#pragma unroll
  for (int k = 0; k < kRun; ++k)
    if (first + k < columns.length)
      image[row * columns.length + first + k] = element_as<T>(sums[k]);
}

void fold(Inputs in, Outputs out, const op::UnfoldAttrs& attrs) {
  if (out[0].numel() == 0) return;
  const Tensor x = row_major(in[0]);
  const Columns columns(attrs, true, out[0].numel());
  visit_compute(x.dtype(), [&]<class C>(std::type_identity<C>) {
    visit_dtype(x.dtype(), [&]<class T>(std::type_identity<T>) {
      if constexpr (std::is_integral_v<C> == std::is_integral_v<T> &&
                    std::is_same_v<C, double> == std::is_same_v<T, double>)
        launch_over(columns.units, x.device(), &fold_kernel<C, T>, columns,
                    static_cast<const T*>(x.raw_data()), static_cast<T*>(out[0].raw_data()));
    });
  });
}

}  // namespace

void attach_unfold() {
  attach<op::Fold, fold>();
  attach<op::Unfold, unfold>();
}

}  // namespace mezzo::gpu
