#include "conv_geometry.h"

#include <algorithm>
#include <cstring>

#include "../device/parallel.h"
#include "convert.h"
#include "gemm_pack.h"

namespace mezzo::cpu_kernels {

namespace {

/** Calls copy_row(first pixel in x, pixels, to) for each row of x that lies in the layout, after
 *  setting the padding to zero. */
template <class E, class CopyRow>
void copy_rows(const Volume& x, const PaddedLayout& layout, E* to, CopyRow copy_row) {
  if (layout.is_unpadded(x)) return copy_row(0, x.pixels(), to);
  const std::int64_t row =
      std::max<std::int64_t>(std::min(x.size[2], layout.size[2] - layout.before[2]), 0);
  std::memset(to, 0, static_cast<std::size_t>(layout.pixels() * layout.pixel_step) * sizeof(E));
  for (std::int64_t z = 0; z < std::min(x.size[0], layout.size[0] - layout.before[0]); ++z)
    for (std::int64_t y = 0; y < std::min(x.size[1], layout.size[1] - layout.before[1]); ++y)
      copy_row((z * x.size[1] + y) * x.size[2], row,
               to + layout.offset(z + layout.before[0], y + layout.before[1], layout.before[2]));
}

/** Converts `count` adjacent elements, or pairs of the elements at `from` and `second`. */
template <class E>
void copy_run(DType dtype, const char* from, const char* second, std::int64_t count, E* to) {
  if constexpr (Factors<E>::kTerms == 1)
    convert(dtype, from, dtype_of<E>(), to, count);
  else
    pack_pairs({from, dtype, 1, 0}, {second, dtype, 1, 0}, count, 1, {to, count});
}

const char* moved(const char* from, std::int64_t bytes) { return from ? from + bytes : nullptr; }

/** Copies a channel of a row-major image; `second` is that of the second factors, or nullptr. */
template <class E>
void copy_channel(const Images& x, const char* from, const char* second, const PaddedLayout& layout,
                  E* to) {
  copy_rows(x.volume, layout, to, [&](std::int64_t pixel, std::int64_t count, E* row) {
    const std::int64_t bytes = pixel * x.item();
    copy_run(x.volume.dtype, from + bytes, moved(second, bytes), count, row);
  });
}

/** Copies channels-last pixels whose groups have an odd number of channels: the last pair of each
 *  has no second factor. */
template <class E>
void copy_odd_groups(const std::uint16_t* from, std::int64_t count, std::int64_t channels, E* to) {
  for (std::int64_t group = 0; group < count; ++group, from += channels) {
    std::memcpy(to, from, static_cast<std::size_t>(channels) * sizeof *from);
    to += channels / 2;
    to++->bits = from[channels - 1];
  }
}

/** Copies channels-last pixels to adjacent ones. */
template <class E>
void copy_pixels(const Images& x, const char* from, std::int64_t count, std::int64_t groups,
                 E* to) {
  const std::int64_t elements = count * x.volume.channels;
  if constexpr (Factors<E>::kTerms == 1)
    convert(x.volume.dtype, from, dtype_of<E>(), to, elements);
  else if (x.volume.channels / groups % 2 == 0)
    std::memcpy(to, from, static_cast<std::size_t>(elements * x.item()));
  else
    copy_odd_groups(reinterpret_cast<const std::uint16_t*>(from), count * groups,
                    x.volume.channels / groups, to);
}

}  // namespace

template <class E>
void copy_padded(const Images& x, std::int64_t n, std::int64_t groups, const PaddedLayout& layout,
                 E* to) {
  const std::int64_t channels = x.volume.channels / groups, terms = Factors<E>::kTerms;
  if (x.channels_last())
    return copy_rows(x.volume, layout, to, [&](std::int64_t pixel, std::int64_t count, E* row) {
      const std::int64_t pixel_bytes = x.pixel_step() * x.item();
      const char* from = x.at(n, 0) + pixel * pixel_bytes;
      if (layout.pixel_step == groups * steps_of<E>(channels))
        return copy_pixels(x, from, count, groups, row);
      for (std::int64_t i = 0; i < count; ++i)
        copy_pixels(x, from + i * pixel_bytes, 1, groups, row + i * layout.pixel_step);
    });
  for (std::int64_t group = 0; group < groups; ++group)
    for (std::int64_t c = 0; c < channels; c += terms, to += layout.pixels()) {
      const bool has_second = terms == 2 && c + 1 < channels;
      const std::int64_t channel = group * channels + c;
      copy_channel(x, x.at(n, channel), has_second ? x.at(n, channel + 1) : nullptr, layout, to);
    }
}

template <class E>
void copy_padded_step(const Images& x, std::int64_t n, Channels channels,
                      const PaddedLayout& layout, E* to) {
  const std::int64_t first = n * Factors<E>::kTerms;
  const bool has_second = first + 1 < x.volume.batch;
  const std::int64_t count = channels.end - channels.begin;
  const auto second_at = [&](std::int64_t channel) -> const char* {
    return has_second ? x.at(first + 1, channel) : nullptr;
  };
  if (!x.channels_last()) {
    for (std::int64_t c = channels.begin; c < channels.end; ++c, to += layout.pixels())
      copy_channel(x, x.at(first, c), second_at(c), layout, to);
    return;
  }
  const char *from = x.at(first, channels.begin), *second = second_at(channels.begin);
  const std::int64_t pixel_bytes = x.pixel_step() * x.item();
  const bool whole = count == x.volume.channels && count == layout.pixel_step;
  copy_rows(x.volume, layout, to, [&](std::int64_t pixel, std::int64_t pixels, E* row) {
    const std::int64_t runs = whole ? 1 : pixels, length = whole ? pixels * count : count;
    for (std::int64_t i = 0; i < runs; ++i) {
      const std::int64_t bytes = (pixel + i) * pixel_bytes;
      copy_run(x.volume.dtype, from + bytes, moved(second, bytes), length,
               row + i * layout.pixel_step);
    }
  });
}

#define MZ_COPY_PADDED(E)                                                                        \
  template void copy_padded(const Images&, std::int64_t, std::int64_t, const PaddedLayout&, E*); \
  template void copy_padded_step(const Images&, std::int64_t, Channels, const PaddedLayout&, E*);
MZ_COPY_PADDED(float)
MZ_COPY_PADDED(double)
#if defined(__AVX512BF16__)
MZ_COPY_PADDED(BFloat16Pair)
#endif
#undef MZ_COPY_PADDED

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

std::vector<std::int64_t> in_each_channel(const PaddedLayout& layout, std::int64_t channels,
                                          const std::vector<std::int64_t>& offsets) {
  std::vector<std::int64_t> all;
  all.reserve(offsets.size() * static_cast<std::size_t>(channels));
  for (std::int64_t c = 0; c < channels; ++c)
    for (const std::int64_t offset : offsets) all.push_back(c * layout.channel_step + offset);
  return all;
}

std::int64_t images_per_task(std::int64_t batch, std::int64_t pixels, std::int64_t units) {
  // About a hundred positions fill the register blocks; about 16 tasks use all threads.
  const std::int64_t enough_pixels = (128 + pixels - 1) / std::max<std::int64_t>(pixels, 1);
  const std::int64_t spread = units >= 4 ? batch : batch / 16;
  return std::clamp<std::int64_t>(enough_pixels, 1, std::max<std::int64_t>(spread, 1));
}

std::int64_t enough_tasks() {
  const int threads = num_threads();
  return threads == 1 ? 1 : std::min(4 * threads, 16);
}

}  // namespace mezzo::cpu_kernels
