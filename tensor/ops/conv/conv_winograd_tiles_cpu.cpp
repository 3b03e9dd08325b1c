// The transforms are the same sums in both directions of a tile, with vectors of channels.
#include "conv_winograd_tiles_cpu.h"

#include <array>

#include "../../cpu/convert.h"
#include "../../cpu/gemm_pack.h"
#include "../../device/parallel.h"

namespace mezzo::cpu_kernels {

namespace {

using S = Simd<float>;
using V = S::V;

/** Returns the pixels of a tile; tile 0 of an image begins at pixel (-pad_y, -pad_x). */
template <int kSize>
TilePixels<kSize> pixels_from(const TileGrid& grid, const PixelImages& images, std::int64_t tile,
                              std::int64_t pad_y, std::int64_t pad_x, float* outside) {
  const std::int64_t n = tile / grid.per_image(), place = tile % grid.per_image(),
                     y = place / grid.columns * 2 - pad_y, x = place % grid.columns * 2 - pad_x;
  TilePixels<kSize> pixels;
  for (int i = 0; i < kSize; ++i)
    for (int j = 0; j < kSize; ++j)
      pixels.at[i * kSize + j] =
          images.contains(y + i, x + j) ? images.at(n, y + i, x + j) : outside;
  return pixels;
}

// ---- one direction of each transform: the points 0, 1, -1 and infinity --------------------------

struct ImageLine {
  static constexpr int kIn = 4, kOut = 4;
  static std::array<V, 4> apply(const std::array<V, 4>& d) {
    return {d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]};
  }
};

struct WeightLine {
  static constexpr int kIn = 3, kOut = 4;
  static std::array<V, 4> apply(const std::array<V, 3>& g) {
    const V outer = g[0] + g[2];
    return {g[0], (outer + g[1]) * 0.5f, (outer - g[1]) * 0.5f, g[2]};
  }
};

struct ResultLine {
  static constexpr int kIn = 4, kOut = 2;
  static std::array<V, 2> apply(const std::array<V, 4>& m) {
    return {m[0] + (m[1] + m[2]), (m[1] - m[2]) - m[3]};
  }
};

struct GradientLine {
  static constexpr int kIn = 2, kOut = 4;
  static std::array<V, 4> apply(const std::array<V, 2>& y) {
    return {y[0], y[0] + y[1], y[0] - y[1], y[1]};
  }
};

struct WeightResultLine {
  static constexpr int kIn = 4, kOut = 3;
  static std::array<V, 3> apply(const std::array<V, 4>& m) {
    const V sum = (m[1] + m[2]) * 0.5f;
    return {m[0] + sum, (m[1] - m[2]) * 0.5f, sum - m[3]};
  }
};

/** Transforms the columns and then the rows of a square. load(i, j) returns an element of it, and
 *  store(i, j, v) takes one of the result. */
template <class Line, class Load, class Store>
MZ_ALWAYS_INLINE void transform(Load load, Store store) {
  constexpr int kIn = Line::kIn, kOut = Line::kOut;
  std::array<V, kIn> rows[kOut];
  MZ_UNROLL
  for (int j = 0; j < kIn; ++j) {
    std::array<V, kIn> column;
    MZ_UNROLL
    for (int i = 0; i < kIn; ++i) column[static_cast<std::size_t>(i)] = load(i, j);
    const std::array<V, kOut> sums = Line::apply(column);
    MZ_UNROLL
    for (int i = 0; i < kOut; ++i)
      rows[i][static_cast<std::size_t>(j)] = sums[static_cast<std::size_t>(i)];
  }
  MZ_UNROLL
  for (int i = 0; i < kOut; ++i) {
    const std::array<V, kOut> sums = Line::apply(rows[i]);
    MZ_UNROLL
    for (int j = 0; j < kOut; ++j) store(i, j, sums[static_cast<std::size_t>(j)]);
  }
}

/** Collects whether elements are finite: 0 times any other element is NaN. */
class FiniteCheck {
 public:
  void add(V x) { zeros_ += x * 0.0f; }
  bool all_finite() const {
    float lanes[S::kWidth], sum = 0;
    S::store(lanes, zeros_);
    for (const float lane : lanes) sum += lane;
    return sum == 0;
  }

 private:
  V zeros_{};
};

}  // namespace

TilePixels<4> pixels_read(const TileGrid& grid, const PixelImages& images, std::int64_t tile,
                          float* outside) {
  return pixels_from<4>(grid, images, tile, grid.pad_y, grid.pad_x, outside);
}

TilePixels<2> pixels_of_tile(const TileGrid& grid, const PixelImages& images, std::int64_t tile,
                             float* outside) {
  return pixels_from<2>(grid, images, tile, 0, 0, outside);
}

void transform_image(const TilePixels<4>& from, std::int64_t first, std::int64_t channels,
                     float* to, std::int64_t product_step) {
  for (std::int64_t c = 0; c < channels; c += S::kWidth)
    transform<ImageLine>(
        [&](int i, int j) { return S::load(from.at[i * 4 + j] + first + c); },
        [&](int i, int j, V v) { S::store(to + (i * 4 + j) * product_step + c, v); });
}

void transform_gradient(const TilePixels<2>& from, std::int64_t first, std::int64_t channels,
                        float* to, std::int64_t product_step) {
  for (std::int64_t c = 0; c < channels; c += S::kWidth)
    transform<GradientLine>(
        [&](int i, int j) { return S::load(from.at[i * 2 + j] + first + c); },
        [&](int i, int j, V v) { S::store(to + (i * 4 + j) * product_step + c, v); });
}

bool transform_weights(const float* from, std::int64_t tap, bool flip, std::int64_t channels,
                       float* to, std::int64_t product_step) {
  FiniteCheck check;
  const float* const first = flip ? from + 8 * tap : from;
  const std::int64_t step = flip ? -tap : tap;
  for (std::int64_t c = 0; c < channels; c += S::kWidth)
    transform<WeightLine>([&](int i, int j) { return S::load(first + (i * 3 + j) * step + c); },
                          [&](int i, int j, V v) {
                            check.add(v);
                            S::store(to + (i * 4 + j) * product_step + c, v);
                          });
  return check.all_finite();
}

bool pixels_of_products(const float* from, std::int64_t product_step, const float* bias,
                        std::int64_t channels, const TilePixels<2>& to) {
  FiniteCheck check;
  for (std::int64_t c = 0; c < channels; c += S::kWidth) {
    const V added = S::load(bias + c);
    transform<ResultLine>(
        [&](int i, int j) { return S::load(from + (i * 4 + j) * product_step + c); },
        [&](int i, int j, V v) {
          const V pixel = v + added;
          check.add(pixel);
          S::store(to.at[i * 2 + j] + c, pixel);
        });
  }
  return check.all_finite();
}

bool weights_of_products(const float* from, std::int64_t product_step, std::int64_t channels,
                         float* to, std::int64_t tap) {
  FiniteCheck check;
  for (std::int64_t c = 0; c < channels; c += S::kWidth)
    transform<WeightResultLine>(
        [&](int i, int j) { return S::load(from + (i * 4 + j) * product_step + c); },
        [&](int i, int j, V v) {
          check.add(v);
          S::store(to + (i * 3 + j) * tap + c, v);
        });
  return check.all_finite();
}

void multiply_panels(const RowPanels<float>& rows, const ColumnPanels<float>& columns,
                     std::int64_t depth, const BlockRows<float>& a, const BlockColumns<float>& b,
                     std::int64_t b_panel, float* c, std::int64_t stride, bool accumulate) {
  for (std::int64_t from = 0; from < depth; from += kDepthBlock<float>)
    for (std::int64_t q = 0; q < columns.count; ++q)
      for (std::int64_t p = 0; p < rows.count; ++p) {
        const std::int64_t row = p * rows.height;
        multiply_block<float>(
            rows.height_of(p), columns.vectors_of(q), std::min(kDepthBlock<float>, depth - from),
            {a.data + row * a.row + from * a.step, a.row, a.step},
            {b.data + q * b_panel + from * b.step, b.step}, c + row * stride + q * columns.kWidth,
            stride, accumulate || from > 0);
      }
}

// ---- copies of images ---------------------------------------------------------------------------

namespace {

/** Pixels that one task converts. */
constexpr std::int64_t kPixelsTogether = 256;

/** Calls f(image, first pixel, pixels) for all pixels of some images, in parallel. */
template <class F> void for_pixels(const Volume& x, Range images, F f) {
  const std::int64_t parts = ceil_div(x.pixels(), kPixelsTogether);
  const auto task = [&](std::int64_t index) {
    const std::int64_t first = index % parts * kPixelsTogether;
    f(images.begin + index / parts, first, std::min(kPixelsTogether, x.pixels() - first));
  };
  parallel_for((images.end - images.begin) * parts, task,
               static_cast<double>((images.end - images.begin) * x.pixels() * x.channels));
}

/** Rounds a run of pixels to a row-major result: transposed in f32, and then converted. */
void store_planes(const float* from, std::int64_t step, const Images& y, char* to,
                  std::int64_t pixels) {
  const Matrix lanes{from, DType::f32, step, 1};
  const std::int64_t plane = y.volume.pixels();
  if (y.volume.dtype == DType::f32) {
    const PackedPanel<float> planes(reinterpret_cast<float*>(to), pixels, plane);
    return pack_panel(lanes, pixels, y.volume.channels, planes);
  }
  const Workspace<float> rows(y.volume.channels * pixels);
  pack_panel(lanes, pixels, y.volume.channels, PackedPanel(rows.data(), pixels));
  for (std::int64_t c = 0; c < y.volume.channels; ++c)
    convert(DType::f32, rows.data() + c * pixels, y.volume.dtype, to + c * plane * y.item(),
            pixels);
}

}  // namespace

bool are_pixel_images(const Images& x) {
  return x.volume.dtype == DType::f32 && x.channels_last() &&
         whole_vectors(x.volume.channels) == x.volume.channels;
}

PixelImages pixel_images(const Images& x, Range images, Workspace<float>& copy) {
  const Volume& v = x.volume;
  const std::int64_t step = whole_vectors(v.channels);
  PixelImages pixels{nullptr, v.size[1], v.size[2], step};
  if (are_pixel_images(x)) {
    pixels.data = reinterpret_cast<float*>(x.at(images.begin, 0));
  } else {
    copy = Workspace<float>((images.end - images.begin) * v.pixels() * step);
    pixels.data = copy.data();
  }
  return pixels;
}

void load_pixels(const Images& x, Range images, const PixelImages& to) {
  for_pixels(x.volume, images, [&](std::int64_t n, std::int64_t first, std::int64_t count) {
    const Matrix lanes{x.at(n, 0) + first * x.pixel_step() * x.item(), x.volume.dtype,
                       x.channel_step(), x.pixel_step()};
    pack_panel(lanes, x.volume.channels, count,
               PackedPanel(to.at(n - images.begin, 0, first), to.step));
  });
}

void store_pixels(const PixelImages& from, const Images& y, Range images) {
  for_pixels(y.volume, images, [&](std::int64_t n, std::int64_t first, std::int64_t count) {
    const float* pixels = from.at(n - images.begin, 0, first);
    char* to = y.at(n, 0) + first * y.pixel_step() * y.item();
    if (!y.channels_last()) return store_planes(pixels, from.step, y, to, count);
    for (std::int64_t i = 0; i < count; ++i)
      convert(DType::f32, pixels + i * from.step, y.volume.dtype,
              to + i * y.pixel_step() * y.item(), y.volume.channels);
  });
}

}  // namespace mezzo::cpu_kernels
