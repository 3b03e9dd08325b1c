// The CUDA kernels of unfold and fold.
#include "../../../tensor/ops/conv/unfold.h"

#include "../../attach.h"
#include "../move.h"

namespace mezzo::gpu {

namespace {

/** The blocks of images [plane][height][width] as columns [plane][position in the block][block]. */
struct Columns {
  op::UnfoldAttrs attrs;
  std::int64_t down, across;  // blocks

  explicit Columns(const op::UnfoldAttrs& a) : attrs(a), down(a.blocks(0)), across(a.blocks(1)) {}

  __device__ std::int64_t size(int d) const { return attrs.sizes[static_cast<std::size_t>(d)]; }
  /** Returns the image coordinate along dimension d of position k of block b; it may be outside. */
  __device__ std::int64_t reached(int d, std::int64_t b, std::int64_t k) const {
    const auto i = static_cast<std::size_t>(d);
    return b * attrs.stride[i] - attrs.padding[i] + k * attrs.dilation[i];
  }
  /** Returns the block whose position k is at `position` along dimension d; -1 for none. */
  __device__ std::int64_t reaching(int d, std::int64_t position, std::int64_t k) const {
    const auto i = static_cast<std::size_t>(d);
    std::int64_t rest;
    const std::int64_t distance = position + attrs.padding[i] - k * attrs.dilation[i];
    if (distance < 0) return -1;
    const std::int64_t block = divided(distance, attrs.stride[i], rest);
    return rest == 0 && block < (d == 0 ? down : across) ? block : -1;
  }
  /** Returns the image offset of an element of the columns. */
  __device__ std::int64_t source(std::int64_t i) const {
    std::int64_t b, bx, by, k, kx, ky;
    const std::int64_t plane =
        divided(divided(i, down * across, b), attrs.kernel[0] * attrs.kernel[1], k);
    by = divided(b, across, bx);
    ky = divided(k, attrs.kernel[1], kx);
    const std::int64_t y = reached(0, by, ky), x = reached(1, bx, kx);
    if (y < 0 || y >= size(0) || x < 0 || x >= size(1)) return -1;
    return (plane * size(0) + y) * size(1) + x;
  }
};

void unfold(Inputs in, Outputs out, const op::UnfoldAttrs& attrs) {
  if (out[0].numel() == 0) return;
  const Tensor x = row_major(in[0]);
  move_elements(x, out[0], 0, Columns(attrs));
}

/** Sums the blocks over each element of the image, in the order of its positions in them. */
template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    fold_kernel(const __grid_constant__ Columns columns, const Array x, const Array image,
                std::int64_t count) {
  const std::int64_t element = static_cast<std::int64_t>(blockIdx.x) * kSpreadThreads + threadIdx.x;
  if (element >= count) return;
  std::int64_t row, column;
  const std::int64_t plane =
      divided(divided(element, columns.size(1), column), columns.size(0), row);
  const std::int64_t height = columns.attrs.kernel[0], width = columns.attrs.kernel[1],
                     blocks = columns.down * columns.across;
  C sum = 0;
  for (std::int64_t i = 0; i < height; ++i) {
    const std::int64_t by = columns.reaching(0, row, i);
    if (by < 0) continue;
    for (std::int64_t j = 0; j < width; ++j) {
      const std::int64_t bx = columns.reaching(1, column, j);
      if (bx < 0) continue;
      const std::int64_t place = (plane * height + i) * width + j;
      sum = static_cast<C>(sum + x.load<C>(place * blocks + by * columns.across + bx));
    }
  }
  image.store<C>(element, sum);
}

void fold(Inputs in, Outputs out, const op::UnfoldAttrs& attrs) {
  const std::int64_t count = out[0].numel();
  if (count == 0) return;
  const Tensor x = row_major(in[0]);
  visit_compute(x.dtype(), [&]<class C>(std::type_identity<C>) {
    launch(&fold_kernel<C>,
           {.blocks = blocks_for(count, kSpreadThreads), .threads = kSpreadThreads},
           current_stream(x.device()), Columns(attrs), Array(x), Array(out[0]), count);
  });
}

}  // namespace

void attach_unfold() {
  attach<op::Fold, fold>();
  attach<op::Unfold, unfold>();
}

}  // namespace mezzo::gpu
