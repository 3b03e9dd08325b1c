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

}  // namespace mezzo::gpu
