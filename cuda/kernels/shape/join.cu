// The CUDA kernel of cat. It copies operands of the result's dtype as words, as many operands per
// launch as fit into its arguments.
#include "../../../tensor/ops/shape/join.h"

#include "../../../tensor/core/row_major.h"
#include "../../attach.h"
#include "../../runtime/device.h"
#include "../items.h"
#include "../words.h"
#include "copy.h"

namespace mezzo::gpu {

namespace {

constexpr int kThreads = 256;
/** Words per thread, one block width apart. */
constexpr int kWords = 4;
constexpr std::int64_t kPerBlock = kThreads * kWords;

/** One operand: runs of `length` words, which begin at `offset` in the result and are `step` words
 *  apart. */
struct Segment {
  const void* data;
  std::int64_t length, offset, words, first_block;
};

struct Segments {
  static constexpr int kMost = 64;
  int count = 0, bytes = 1;
  std::int64_t step = 1, blocks = 0;
  Segment items[kMost] = {};
};

__global__ void __launch_bounds__(kThreads)
    join_kernel(const Segments __grid_constant__ segments, void* to) {
  const auto block = static_cast<std::int64_t>(blockIdx.x);
  int i = 0;
  while (i + 1 < segments.count && segments.items[i + 1].first_block <= block) ++i;
  const Segment& segment = segments.items[i];
  const std::int64_t first = (block - segment.first_block) * kPerBlock + threadIdx.x;
#pragma unroll
  for (int k = 0; k < kWords; ++k) {
    const std::int64_t word = first + k * kThreads;
    if (word >= segment.words) return;
    const Split at(word, segment.length);
    copy_word(segment.data, word, to, at.quotient * segments.step + segment.offset + at.rest,
              segments.bytes);
  }
}

/** Returns the size of the widest word that divides all of `bytes`, the bitwise or of sizes and
 *  addresses. */
int word_bytes(std::uint64_t bytes) {
  int word = 16;
  while (bytes % static_cast<std::uint64_t>(word) != 0) word /= 2;
  return word;
}

/** An operand in row-major order and in the result's dtype, with the length of its runs and their
 *  offset in the result's, in bytes. */
struct Operand {
  Tensor x;
  std::int64_t length, offset;
};

void join(std::span<const Operand> operands, std::int64_t step, const Tensor& y) {
  std::uint64_t all =
      static_cast<std::uint64_t>(step) | reinterpret_cast<std::uintptr_t>(y.raw_data());
  for (const Operand& operand : operands)
    all |= static_cast<std::uint64_t>(operand.length | operand.offset) |
           reinterpret_cast<std::uintptr_t>(operand.x.raw_data());
  const int word = word_bytes(all);
  Segments segments{.bytes = word, .step = step / word};
  const auto flush = [&] {
    launch(&join_kernel, {.blocks = segments.blocks, .threads = kThreads},
           current_stream(y.device()), segments, y.raw_data());
    segments.count = 0;
    segments.blocks = 0;
  };
  for (const Operand& operand : operands) {
    const std::int64_t words =
        operand.x.numel() * static_cast<std::int64_t>(item_size(operand.x.dtype())) / word;
    segments.items[segments.count++] = {operand.x.raw_data(), operand.length / word,
                                        operand.offset / word, words, segments.blocks};
    segments.blocks += blocks_for(words, kPerBlock);
    if (segments.count == Segments::kMost) flush();
  }
  flush();
}

void cat(Inputs in, Outputs out, const op::Cat::Attrs& attrs) {
  const Tensor& y = out[0];
  if (y.numel() == 0) return;
  const int dim = wrap_dim(attrs.dim, y.dim(), "cat");
  auto inner = static_cast<std::int64_t>(item_size(y.dtype()));
  for (int i = dim + 1; i < y.dim(); ++i) inner *= y.shape()[i];
  std::vector<Operand> operands;
  std::int64_t offset = 0;
  for (const Tensor& x : in) {
    if (x.numel() == 0) continue;
    const std::int64_t length = x.shape()[dim] * inner;
    Tensor same = x;
    if (x.dtype() != y.dtype()) {
      same = empty_tensor(x.shape(), y.dtype(), y.device());
      copy_elements(x, same);
    }
    operands.push_back({row_major(same), length, offset});
    offset += length;
  }
  join(operands, y.shape()[dim] * inner, y);
}

}  // namespace

void attach_join() { attach<op::Cat, cat>(); }

}  // namespace mezzo::gpu
