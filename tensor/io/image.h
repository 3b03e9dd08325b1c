// Reads images from PNG and JPEG files, and writes PNG files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../core/tensor.h"

namespace mezzo {

/** Reads a PNG or JPEG file as red, green and blue: u8 [3,H,W] on the CPU. The content decides
 * which it is, not the name. Grey images have three equal channels; CMYK
 * is converted without a colour profile, as Pillow does; transparency is left out; 16
 * bits are reduced to 8. At most 2^28 pixels. Errors: IoError naming path and cause; FormatError
 * with the decoder's reason for other, damaged and truncated files; Unsupported in a build without
 * the decoder, naming its option. */
MZ_API Tensor load_image(const std::string& path);

/** Options of make_grid() and save_image(), as in torchvision.utils. */
struct GridOptions {
  std::int64_t nrow = 8;     // images in each row of the grid
  std::int64_t padding = 2;  // pixels between images and around them
  bool normalize = false;    // moves numbers from value_range to 0..1
  std::optional<std::pair<double, double>> value_range = {};  // none: from the least to the largest
  bool scale_each = false;  // normalize: the range of each image, not that of all
  double pad_value = 0;     // of the pixels between images
};

/** Returns images [N,C,H,W] (also [H,W], [C,H,W] and a list of [C,H,W]) as one image on the CPU:
 * the rows of the grid are filled from the left; one channel is made three. u8 stays u8; other
 * dtypes give f32. A single image is returned without padding. Errors: ShapeError for other shapes
 * and channels, and images of different shapes; DtypeError; ValueError for options out of range,
 * and normalize with u8. Source: torchvision.utils.make_grid. */
MZ_API Tensor make_grid(const Tensor& images, const GridOptions& options = {});
/** Does the same for a list of images. */
MZ_API Tensor make_grid(const std::vector<Tensor>& images, const GridOptions& options = {});

/** Writes an image, or a grid of images, as make_grid() takes them, to a PNG file. Numbers in 0..1
 *  become 0..255, rounded to nearest; smaller and larger ones are clamped, NaN becomes 0. The file
 *  appears completely or not at all. Errors: those of make_grid(); ValueError unless the path ends
 *  in .png; IoError; Unsupported in a build without libpng. */
MZ_API void save_image(const std::string& path, const Tensor& images,
                       const GridOptions& options = {});

namespace io {
/** Returns an image, as save_image() takes one, as PNG: width and height are those of the result of
 *  make_grid(). */
MZ_API std::string png_bytes(std::string_view op, const Tensor& image);
}  // namespace io

}  // namespace mezzo
