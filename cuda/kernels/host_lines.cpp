#include "host_lines.h"

#include <algorithm>
#include <bit>

namespace mezzo::gpu {

namespace {

int power_of_two_from(std::int64_t n) {
  return static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(1, n))));
}

}  // namespace

Spread spread_over(std::int64_t lines, std::int64_t length, bool across) {
  constexpr std::int64_t kWarp = 32;
  constexpr std::int64_t kMost = kSpreadThreads;
  Spread spread{.across = across};
  spread.parts = power_of_two_from(std::min(length, across ? 8 : kMost));
  const std::int64_t useful = std::clamp<std::int64_t>(lines, 1, kMost) * spread.parts;
  spread.slots = power_of_two_from(std::clamp(useful, kWarp, kMost)) / spread.parts;
  return spread;
}

Lines lines_along(const Shape& shape, int dim) {
  Lines lines{.count = 1};
  for (int i = 0; i < shape.rank(); ++i) {
    if (i == dim)
      lines.length = shape[i];
    else
      lines.count *= shape[i];
    if (i > dim) lines.inner *= shape[i];
  }
  lines.spread = spread_over(lines.count, lines.length, lines.inner > 1);
  return lines;
}

Lines trailing_lines(const Shape& shape, int rank) {
  Lines lines{.count = 1};
  for (int i = 0; i < shape.rank(); ++i)
    (i < shape.rank() - rank ? lines.count : lines.length) *= shape[i];
  lines.spread = spread_over(lines.count, lines.length, false);
  return lines;
}

Tensor workspace(std::int64_t bytes, Device device) {
  const CategoryScope scope(MemoryCategory::workspace);
  return empty_tensor({bytes}, DType::u8, device);
}

namespace {

constexpr std::int64_t kChunk = 4096;            // smallest number of elements per block
constexpr std::int64_t kEnoughLineBlocks = 512;  // enough to keep a GPU busy

void cut(ReductionPlan& r) {
  const std::int64_t length = r.reduced.count;
  r.chunk_length = length;
  const std::int64_t blocks = r.blocks();
  if (length < 2 * kChunk || blocks == 0 || blocks >= kEnoughLineBlocks) return;
  const std::int64_t wanted = std::min((length + kChunk - 1) / kChunk, kEnoughLineBlocks / blocks);
  if (wanted < 2) return;
  r.chunk_length = (length + wanted - 1) / wanted;
  r.chunks = (length + r.chunk_length - 1) / r.chunk_length;
}

}  // namespace

ReductionPlan reduction_of(const Tensor& x, std::uint32_t dims) {
  ReductionPlan r;
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
