#include "augment.h"

namespace samples {

using namespace mezzo;

Tensor augment(const Tensor& images, const AugmentOptions& options) {
  const std::int64_t count = images.size(0), channels = images.size(1), rows = images.size(2),
                     columns = images.size(3);
  const std::vector<std::int64_t> moves =
      randint(0, 2 * options.padding + 1, {count, 2}).to_vector<std::int64_t>();
  const std::vector<std::int64_t> flips = randint(0, 2, {count}).to_vector<std::int64_t>();
  const Tensor from = images.contiguous(), to = zeros(images.shape());
  const auto* source = from.data<float>();
  auto* target = to.data<float>();
  for (std::int64_t n = 0; n < count; ++n) {
    const std::int64_t down = moves[static_cast<std::size_t>(2 * n)] - options.padding;
    const std::int64_t right = moves[static_cast<std::size_t>(2 * n + 1)] - options.padding;
    const bool flipped = options.flip && flips[static_cast<std::size_t>(n)] == 1;
    for (std::int64_t row = 0; row < channels * rows; ++row) {
      const std::int64_t r = row % rows - down;
      if (r < 0 || r >= rows) continue;
      const auto* line = source + (n * channels * rows + row - down) * columns;
      auto* out = target + (n * channels * rows + row) * columns;
      for (std::int64_t c = std::max<std::int64_t>(0, right);
           c < std::min(columns, columns + right); ++c)
        out[flipped ? columns - 1 - c : c] = line[c - right];
    }
  }
  return to;
}

}  // namespace samples
