#include "reduce_plan.h"

#include <algorithm>

namespace mezzo::gpu {

namespace {

constexpr std::int64_t kChunk = 4096;        // smallest number of elements per block
constexpr std::int64_t kEnoughBlocks = 512;  // enough to keep a GPU busy

void cut(Reduction& r) {
  const std::int64_t length = r.reduced.count;
  r.chunk_length = length;
  const std::int64_t blocks = r.blocks();
  if (length < 2 * kChunk || blocks == 0 || blocks >= kEnoughBlocks) return;
  const std::int64_t wanted = std::min((length + kChunk - 1) / kChunk, kEnoughBlocks / blocks);
  if (wanted < 2) return;
  r.chunk_length = (length + wanted - 1) / wanted;
  r.chunks = (length + r.chunk_length - 1) / r.chunk_length;
}

}  // namespace

Reduction reduction_of(const Tensor& x, std::uint32_t dims) {
  Reduction r;
  bool across = false;
  r.data = x.raw_data();
  r.dtype = x.dtype();
  for (int i = 0; i < x.dim(); ++i) {
    const bool reduced = (dims >> i & 1) != 0;
    (reduced ? r.reduced : r.kept).push(x.shape()[i], x.strides()[i]);
    if (x.shape()[i] > 1) across = !reduced;
  }
  r.spread = spread_over(r.results(), r.reduced.count, across);
  cut(r);
  return r;
}

}  // namespace mezzo::gpu
