// What the Winograd convolutions share: images with adjacent channels in f32, the division of a
// result into tiles of 2 x 2, the transforms of a tile, and the products of transformed tiles.
#pragma once

#include <cstdint>

#include "../../cpu/gemm_panels.h"
#include "../../cpu/workspace.h"
#include "conv_geometry_cpu.h"

namespace mezzo::cpu_kernels {

/** The number of elements of a transformed tile, and thus of products. */
inline constexpr std::int64_t kWinogradProducts = 16;

/** Returns a number of channels rounded up to whole vectors. */
inline std::int64_t whole_vectors(std::int64_t channels) {
  constexpr std::int64_t kLanes = RegisterBlock<float>::kLanes;
  return ceil_div(channels, kLanes) * kLanes;
}

/** Returns the distance between the pixels of transformed tiles. Distances of many lines of the
 *  cache that are a power of two would make tiles evict each other from the L1 cache. */
inline std::int64_t tile_step(std::int64_t channels) { return whole_vectors(channels) + 16; }

/** Images in f32 whose channels are adjacent and fill whole vectors. */
struct PixelImages {
  float* data = nullptr;
  std::int64_t height = 0, width = 0, step = 0;  // step: elements between pixels

  float* at(std::int64_t n, std::int64_t y, std::int64_t x) const {
    return data + ((n * height + y) * width + x) * step;
  }
  bool contains(std::int64_t y, std::int64_t x) const {
    return y >= 0 && y < height && x >= 0 && x < width;
  }
};

/** Returns whether the memory of 2-D images has that form. */
bool are_pixel_images(const Images& x);
/** Returns some images in that form: their own memory, or `copy`, which is then allocated. */
PixelImages pixel_images(const Images& x, Range images, Workspace<float>& copy);
/** Converts the channels of each pixel, in parallel. `to` is a copy of these images. */
void load_pixels(const Images& x, Range images, const PixelImages& to);
/** Rounds the copy of a result to its own memory, in parallel. */
void store_pixels(const PixelImages& from, const Images& y, Range images);

/** The tiles of some images of a result, and the padding of the images that are read. */
struct TileGrid {
  std::int64_t rows, columns;  // of tiles in an image
  std::int64_t pad_y, pad_x;

  std::int64_t per_image() const { return rows * columns; }
};
inline TileGrid tile_grid(std::int64_t height, std::int64_t width, std::int64_t pad_y,
                          std::int64_t pad_x) {
  return {ceil_div(height, 2), ceil_div(width, 2), pad_y, pad_x};
}

/** The pixels of kSize x kSize of an image, some of which may be outside of it. */
template <int kSize> struct TilePixels {
  float* at[kSize * kSize];
};
/** Returns the pixels that tile number `tile` of a grid reads. `outside` stands for pixels outside
 *  of the image. */
TilePixels<4> pixels_read(const TileGrid& grid, const PixelImages& images, std::int64_t tile,
                          float* outside);
/** Returns the pixels of the result in tile number `tile` of a grid. */
TilePixels<2> pixels_of_tile(const TileGrid& grid, const PixelImages& images, std::int64_t tile,
                             float* outside);

// ---- transforms ---------------------------------------------------------------------------------
// Each transforms a square for all of the channels, a multiple of a vector. Element e of a
// transformed tile is at e * product_step.

/** Transforms 4 x 4 pixels of images, from channel `first` on. */
void transform_image(const TilePixels<4>& from, std::int64_t first, std::int64_t channels,
                     float* to, std::int64_t product_step);
/** Transforms 2 x 2 pixels of gradients of a result, from channel `first` on, without the factors
 *  1/2 that weights_of_products() applies. */
void transform_gradient(const TilePixels<2>& from, std::int64_t first, std::int64_t channels,
                        float* to, std::int64_t product_step);
/** Transforms 3 x 3 weights, which are `tap` elements apart; with `flip` in the reverse order of
 *  taps. Returns whether all elements are finite. */
bool transform_weights(const float* from, std::int64_t tap, bool flip, std::int64_t channels,
                       float* to, std::int64_t product_step);
/** Computes the 2 x 2 pixels of a result, and adds the bias. Returns whether they are finite. */
bool pixels_of_products(const float* from, std::int64_t product_step, const float* bias,
                        std::int64_t channels, const TilePixels<2>& to);
/** Computes 3 x 3 gradients of weights, `tap` elements apart. Returns whether they are finite. */
bool weights_of_products(const float* from, std::int64_t product_step, std::int64_t channels,
                         float* to, std::int64_t tap);

/** Computes c = a b, or c += a b if `accumulate`. The panels of b are `b_panel` elements apart; c
 *  has `stride` elements between rows, and whole vectors. Every element is one chain of sums. */
void multiply_panels(const RowPanels<float>& rows, const ColumnPanels<float>& columns,
                     std::int64_t depth, const BlockRows<float>& a, const BlockColumns<float>& b,
                     std::int64_t b_panel, float* c, std::int64_t stride, bool accumulate);

}  // namespace mezzo::cpu_kernels
