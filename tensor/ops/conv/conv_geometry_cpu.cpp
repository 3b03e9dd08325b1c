#include "conv_geometry_cpu.h"

#include <algorithm>
#include <cstring>

#include "../../cpu/convert.h"
#include "../../cpu/gemm_tile.h"
#include "../../cpu/transpose.h"
#include "../../cpu/workspace.h"
#include "../../device/parallel.h"

namespace mezzo::cpu_kernels {

namespace {

/** Calls copy_row(first pixel in x, pixels, to) for each row of x that lies in the layout, after
 *  setting the padding to zero. The pixels are layout.pixel_step elements of E apart. */
template <class E, class CopyRow>
void copy_rows(const Volume& x, const PaddedLayout& layout, E* to, CopyRow copy_row) {
  if (layout.is_unpadded(x)) return copy_row(0, x.pixels(), to);
  const std::int64_t row =
      std::max<std::int64_t>(std::min(x.size[2], layout.size[2] - layout.before[2]), 0);
  std::memset(static_cast<void*>(to), 0,
              static_cast<std::size_t>(layout.pixels() * layout.pixel_step) * sizeof(E));
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

#if defined(__AVX512BF16__)
/** As copy_padded(), for lines. Row-major images have a plane for each step of channels of a group;
 *  channels-last pixels hold the lines of all groups. */
template <class E>
void copy_lines(const Images& x, std::int64_t n, std::int64_t groups, const PaddedLayout& layout,
                E* to) {
  const std::int64_t channels = x.volume.channels / groups, steps = steps_of<E>(channels);
  const auto pixels_at = [&](std::int64_t pixel, std::int64_t channel) {
    return Matrix{x.at(n, channel) + pixel * x.pixel_step() * x.item(), x.volume.dtype,
                  x.pixel_step(), x.channel_step()};
  };
  if (x.channels_last())
    return copy_rows(x.volume, layout, to, [&](std::int64_t pixel, std::int64_t count, E* row) {
      for (std::int64_t i = 0; i < count; ++i)
        for (std::int64_t group = 0; group < groups; ++group)
          pack_row_panel(pixels_at(pixel + i, group * channels), 1, channels,
                         PackedPanel(row + i * layout.pixel_step + group * steps, 1));
    });
  for (std::int64_t group = 0; group < groups; ++group)
    for (std::int64_t c = 0; c < channels; c += kLineTerms, to += layout.pixels())
      copy_rows(x.volume, layout, to, [&](std::int64_t pixel, std::int64_t count, E* row) {
        pack_row_panel(pixels_at(pixel, group * channels + c), count,
                       std::min<std::int64_t>(channels - c, kLineTerms), PackedPanel(row, count));
      });
}

/** As copy_padded_step(), for lines: the factors of up to 32 images. */
template <class E>
void copy_lines_step(const Images& x, std::int64_t n, Channels channels, const PaddedLayout& layout,
                     E* to) {
  const std::int64_t first = n * kLineTerms,
                     terms = std::min<std::int64_t>(x.volume.batch - first, kLineTerms),
                     image = x.volume.channels * x.volume.pixels(),
                     count = channels.end - channels.begin;
  const auto pack = [&](const char* from, std::int64_t length, E* row) {
    pack_row_panel({from, x.volume.dtype, 1, image}, length, terms, PackedPanel(row, length));
  };
  if (!x.channels_last()) {
    for (std::int64_t c = channels.begin; c < channels.end; ++c, to += layout.pixels())
      copy_rows(x.volume, layout, to, [&](std::int64_t pixel, std::int64_t pixels, E* row) {
        pack(x.at(first, c) + pixel * x.item(), pixels, row);
      });
    return;
  }
  const bool whole = count == x.volume.channels && count == layout.pixel_step;
  copy_rows(x.volume, layout, to, [&](std::int64_t pixel, std::int64_t pixels, E* row) {
    const std::int64_t runs = whole ? 1 : pixels, length = whole ? pixels * count : count;
    for (std::int64_t i = 0; i < runs; ++i)
      pack(x.at(first, channels.begin) + (pixel + i) * x.pixel_step() * x.item(), length,
           row + i * layout.pixel_step);
  });
}

/** Copies n numbers of 16 bits. */
MZ_ALWAYS_INLINE void copy_short(const std::uint16_t* from, std::uint16_t* to, std::int64_t n) {
  for (; n > 0; n -= 32, from += 32, to += 32) {
    const auto valid = static_cast<__mmask32>(n >= 32 ? ~0u : (1u << n) - 1);
    _mm512_mask_storeu_epi16(to, valid, _mm512_maskz_loadu_epi16(valid, from));
  }
}

/** The padded image of a group, of numbers of 16 bits, channels-last, with the sizes that the
 *  kernel slides over. */
class WindowSource {
 public:
  WindowSource(const ConvGeometry& g, std::int64_t channels) : g_(g), channels_(channels) {
    layout_.before = g.pad;
    for (std::size_t d = 0; d < 3; ++d)
      layout_.size[d] = (g.out[d] - 1) * g.stride[d] + (g.kernel[d] - 1) * g.dilation[d] + 1;
    layout_.set_format(MemoryFormat::channels_last, channels);
    room_ = Workspace<std::uint16_t>(layout_.pixels() * channels);
  }

  void set(const Images& x, std::int64_t n, std::int64_t first_channel) {
    copy_rows(x.volume, layout_, room_.data(),
              [&](std::int64_t pixel, std::int64_t count, std::uint16_t* row) {
                const auto* from = reinterpret_cast<const std::uint16_t*>(
                    x.at(n, first_channel) + pixel * x.pixel_step() * x.item());
                if (!x.channels_last())
                  transpose(from, x.channel_step(), row, channels_, channels_, count);
                else
                  for (std::int64_t i = 0; i < count; ++i)
                    copy_short(from + i * x.pixel_step(), row + i * channels_, channels_);
              });
  }

  /** Writes the terms of a position. */
  void copy_window(std::int64_t z, std::int64_t y, std::int64_t x, std::uint16_t* to) const {
    const bool adjacent = g_.dilation[2] == 1;
    const std::int64_t runs = adjacent ? 1 : g_.kernel[2],
                       length = (adjacent ? g_.kernel[2] : 1) * channels_;
    for (std::int64_t i = 0; i < g_.kernel[0]; ++i)
      for (std::int64_t j = 0; j < g_.kernel[1]; ++j)
        for (std::int64_t k = 0; k < runs; ++k, to += length)
          copy_short(room_.data() + layout_.offset(z * g_.stride[0] + i * g_.dilation[0],
                                                   y * g_.stride[1] + j * g_.dilation[1],
                                                   x * g_.stride[2] + k * g_.dilation[2]),
                     to, length);
  }

 private:
  const ConvGeometry& g_;
  std::int64_t channels_;
  PaddedLayout layout_;
  Workspace<std::uint16_t> room_;
};
#endif

}  // namespace

#if defined(__AVX512BF16__)
template <class E>
void copy_windows(const Images& x, std::int64_t n, std::int64_t groups, const ConvGeometry& g,
                  const PaddedLayout& layout, E* to) {
  const std::int64_t channels = x.volume.channels / groups, terms = channels * g.taps(),
                     steps = steps_of<E>(terms);
  WindowSource source(g, channels);
  const Workspace<std::uint16_t> window(steps * kLineTerms);
  std::memset(window.data(), 0, static_cast<std::size_t>(steps * kLineTerms) * 2);
  for (std::int64_t group = 0; group < groups; ++group) {
    source.set(x, n, group * channels);
    E* at = to + group * steps;
    for (std::int64_t i = 0; i < g.out[0]; ++i)
      for (std::int64_t j = 0; j < g.out[1]; ++j)
        for (std::int64_t k = 0; k < g.out[2]; ++k, at += layout.pixel_step) {
          if constexpr (std::is_same_v<E, BFloat16Line>) {
            auto* line = reinterpret_cast<std::uint16_t*>(at);
            source.copy_window(i, j, k, line);
            copy_short(window.data(), line + terms, steps * kLineTerms - terms);
          } else {
            source.copy_window(i, j, k, window.data());
            pack_row_panel({window.data(), DType::f16, terms, 1}, 1, terms, PackedPanel(at, 1));
          }
        }
  }
}
template void copy_windows(const Images&, std::int64_t, std::int64_t, const ConvGeometry&,
                           const PaddedLayout&, BFloat16Line*);
template void copy_windows(const Images&, std::int64_t, std::int64_t, const ConvGeometry&,
                           const PaddedLayout&, HalfLine*);
#endif

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

#if defined(__AVX512BF16__)
template <>
void copy_padded(const Images& x, std::int64_t n, std::int64_t groups, const PaddedLayout& layout,
                 BFloat16Line* to) {
  copy_lines(x, n, groups, layout, to);
}
template <>
void copy_padded(const Images& x, std::int64_t n, std::int64_t groups, const PaddedLayout& layout,
                 HalfLine* to) {
  copy_lines(x, n, groups, layout, to);
}
template <>
void copy_padded_step(const Images& x, std::int64_t n, Channels channels,
                      const PaddedLayout& layout, BFloat16Line* to) {
  copy_lines_step(x, n, channels, layout, to);
}
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

}  // namespace mezzo::cpu_kernels
