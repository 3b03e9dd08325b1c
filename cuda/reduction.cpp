#include "reduction.h"

#include <algorithm>
#include <bit>

namespace mezzo::gpu {

namespace {

constexpr std::int64_t kChunk = 4096;        // elements that are worth a block
constexpr std::int64_t kEnoughBlocks = 512;  // to keep a GPU busy

int power_of_two_from(std::int64_t n) {
  return static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(1, n))));
}

void assign_threads(Reduction& r) {
  const std::int64_t length = r.reduced.count;
  if (r.across) {
    r.parts = std::min(8, power_of_two_from(length));
  } else {
    r.parts = std::min(kReduceThreads, power_of_two_from(length));
  }
  r.slots = kReduceThreads / r.parts;
}

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
  r.data = x.raw_data();
  r.dtype = x.dtype();
  for (int i = 0; i < x.dim(); ++i) {
    const bool reduced = (dims >> i & 1) != 0;
    (reduced ? r.reduced : r.kept).push(x.shape()[i], x.strides()[i]);
    if (x.shape()[i] > 1) r.across = !reduced;
  }
  assign_threads(r);
  cut(r);
  return r;
}

Tensor workspace(std::int64_t bytes, Device device) {
  const CategoryScope scope(MemoryCategory::workspace);
  return empty_tensor({bytes}, DType::u8, device);
}

}  // namespace mezzo::gpu
