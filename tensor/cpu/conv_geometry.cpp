#include "conv_geometry.h"

#include <algorithm>
#include <cstring>

#include "convert.h"
#include "gemm_pack.h"

namespace mezzo::cpu_kernels {

namespace {

/** Calls copy_row(offset of the row in a channel, elements, to) for each row of a channel that lies
 *  in the layout, after setting the padding to zero. */
template <class E, class CopyRow>
void copy_channel(const Volume& x, const PaddedLayout& layout, E* to, CopyRow copy_row) {
  if (layout.size == x.size && layout.before == Extent{0, 0, 0}) return copy_row(0, x.pixels(), to);
  const std::int64_t row =
      std::max<std::int64_t>(std::min(x.size[2], layout.size[2] - layout.before[2]), 0);
  std::memset(to, 0, static_cast<std::size_t>(layout.channel_size()) * sizeof(E));
  for (std::int64_t z = 0; z < std::min(x.size[0], layout.size[0] - layout.before[0]); ++z)
    for (std::int64_t y = 0; y < std::min(x.size[1], layout.size[1] - layout.before[1]); ++y)
      copy_row((z * x.size[1] + y) * x.size[2], row,
               to + layout.offset(z + layout.before[0], y + layout.before[1], layout.before[2]));
}

}  // namespace

template <class E>
void copy_padded(const Volume& x, const char* channel, const char* second,
                 const PaddedLayout& layout, E* to) {
  const auto item = static_cast<std::int64_t>(item_size(x.dtype));
  copy_channel(x, layout, to, [&](std::int64_t at, std::int64_t count, E* row) {
    const char* from = channel + at * item;
    if constexpr (Factors<E>::kTerms == 1)
      convert(x.dtype, from, dtype_of<E>(), row, count);
    else
      pack_pairs({from, x.dtype, 1, 0}, {second ? second + at * item : nullptr, x.dtype, 1, 0},
                 count, 1, count, row);
  });
}

template void copy_padded(const Volume&, const char*, const char*, const PaddedLayout&, float*);
template void copy_padded(const Volume&, const char*, const char*, const PaddedLayout&, double*);
#if defined(__AVX512BF16__)
template void copy_padded(const Volume&, const char*, const char*, const PaddedLayout&,
                          BFloat16Pair*);
#endif

std::vector<std::int64_t> position_offsets(const PaddedLayout& layout, const Extent& count,
                                           const Extent& step) {
  std::vector<std::int64_t> offsets;
  offsets.reserve(static_cast<std::size_t>(count[0] * count[1] * count[2]));
  for (std::int64_t z = 0; z < count[0]; ++z)
    for (std::int64_t y = 0; y < count[1]; ++y)
      for (std::int64_t x = 0; x < count[2]; ++x)
        offsets.push_back(layout.offset(z * step[0], y * step[1], x * step[2]));
  return offsets;
}

std::vector<std::int64_t> tap_offsets(const PaddedLayout& layout, std::int64_t channels,
                                      const Extent& kernel, const Extent& dilation) {
  const std::vector<std::int64_t> one = position_offsets(layout, kernel, dilation);
  std::vector<std::int64_t> offsets;
  offsets.reserve(one.size() * static_cast<std::size_t>(channels));
  for (std::int64_t c = 0; c < channels; ++c)
    for (const std::int64_t offset : one) offsets.push_back(c * layout.channel_size() + offset);
  return offsets;
}

std::int64_t images_per_task(std::int64_t batch, std::int64_t pixels, std::int64_t units) {
  // About a hundred positions fill the register blocks; about 16 tasks use all threads.
  const std::int64_t enough_pixels = (128 + pixels - 1) / std::max<std::int64_t>(pixels, 1);
  const std::int64_t spread = units >= 4 ? batch : batch / 16;
  return std::clamp<std::int64_t>(enough_pixels, 1, std::max<std::int64_t>(spread, 1));
}

}  // namespace mezzo::cpu_kernels
