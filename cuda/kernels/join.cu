// The CUDA kernel of cat: operands of the result's dtype are copied as words, as many of them in one launch as fit its arguments.
#include "../../tensor/ops/join.h"

#include "../../tensor/row_major.h"
#include "../attach.h"
#include "../device.h"
#include "copy.h"
#include "items.h"
#include "row.h"
#include "words.h"

namespace mezzo::gpu {

namespace {

constexpr int kThreads = 256;
/** Words of a thread, a block's width apart. */
constexpr int kWords = 4;
constexpr std::int64_t kPerBlock = kThreads * kWords;

/** One operand: runs of `length` words, which lie `step` words apart in the result, from `offset` on. */
struct Piece {
  const void* data;
  std::int64_t length, offset, words, first_block;
};

struct Pieces {
  static constexpr int kMost = 64;
  int count = 0, bytes = 1;
  std::int64_t step = 1, blocks = 0;
  Piece items[kMost] = {};
};

__global__ void __launch_bounds__(kThreads) join_kernel(const __grid_constant__ Pieces pieces, void* to) {
  const auto block = static_cast<std::int64_t>(blockIdx.x);
  int i = 0;
  while (i + 1 < pieces.count && pieces.items[i + 1].first_block <= block) ++i;
  const Piece& piece = pieces.items[i];
  const std::int64_t first = (block - piece.first_block) * kPerBlock + threadIdx.x;
#pragma unroll
  for (int k = 0; k < kWords; ++k) {
    const std::int64_t word = first + k * kThreads;
    if (word >= piece.words) return;
    const Split at(word, piece.length);
    copy_word(piece.data, word, to, at.quotient * pieces.step + piece.offset + at.rest, pieces.bytes);
  }
}

/** Bytes of the widest word that divides all of `bytes`, which are counts of bytes and addresses. */
int word_bytes(std::uint64_t bytes) {
  int word = 16;
  while (bytes % static_cast<std::uint64_t>(word) != 0) word /= 2;
  return word;
}

/** Operands in row-major order and in the result's dtype, with the bytes of their runs and where those begin in the result's. */
struct Operand {
  Tensor x;
  std::int64_t length, offset;
};

void join(std::span<const Operand> operands, std::int64_t step, const Tensor& y) {
  std::uint64_t all = static_cast<std::uint64_t>(step) | reinterpret_cast<std::uintptr_t>(y.raw_data());
  for (const Operand& operand : operands)
    all |= static_cast<std::uint64_t>(operand.length | operand.offset) |
           reinterpret_cast<std::uintptr_t>(operand.x.raw_data());
  const int word = word_bytes(all);
  Pieces pieces{.bytes = word, .step = step / word};
  const auto flush = [&] {
    launch(&join_kernel, {.blocks = pieces.blocks, .threads = kThreads}, current_stream(y.device()), pieces,
           y.raw_data());
    pieces.count = 0;
    pieces.blocks = 0;
  };
  for (const Operand& operand : operands) {
    const std::int64_t words =
        operand.x.numel() * static_cast<std::int64_t>(item_size(operand.x.dtype())) / word;
    pieces.items[pieces.count++] = {operand.x.raw_data(), operand.length / word, operand.offset / word, words,
                                    pieces.blocks};
    pieces.blocks += blocks_for(words, kPerBlock);
    if (pieces.count == Pieces::kMost) flush();
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
