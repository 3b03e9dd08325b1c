// Functions of images that image_transforms.h applies with random arguments, as in
// torchvision.transforms.functional.
#pragma once

#include <cstdint>
#include <utility>

#include "../../tensor/core/tensor.h"

namespace mezzo::data {

/** Returns an image [..., H, W] of any dtype, rotated anticlockwise about its centre, in the same
 *  size. A pixel is that at the nearest place of the image (ties to even), or `fill` outside.
 *  Errors: ValueError for an angle that is not finite, ShapeError for less than 2 dimensions,
 *  DeviceError unless it is on the CPU. */
MZ_API Tensor rotate(const Tensor& image, double degrees, double fill = 0);

/** Returns an image [..., H, W], u8 or floating-point, blurred by a Gaussian of `kernel_size` odd
 *  pixels in each direction and deviation `sigma`; the border is reflected. Computed in f32, also
 *  for f64, and rounded once. Errors: ValueError for an even size or one below 1, a size that
 * reaches beyond the reflected border, and a deviation that is not above 0; ShapeError, DtypeError,
 * DeviceError. Source: torchvision.transforms.functional.gaussian_blur. */
MZ_API Tensor gaussian_blur(const Tensor& image, std::int64_t kernel_size, double sigma);

/** Options of affine(). */
struct AffineOptions {
  double angle = 0;                       // degrees, clockwise
  std::pair<double, double> translate{};  // pixels to the right and down
  double scale = 1;                       // above 0
  std::pair<double, double> shear{};      // degrees along x and y
  double fill = 0;                        // of pixels outside the image
};

/** Returns an image [..., H, W] of any dtype, scaled, sheared, turned about its centre and moved,
 * in the same size. A pixel is that at the nearest place of the image (ties to even), or `fill`
 *  outside. Errors: ValueError for numbers that are not finite, a scale that is not above 0 and a
 *  shear that collapses the image; ShapeError, DeviceError.
 *  Source: torchvision.transforms.functional.affine, whose angle is clockwise, unlike rotate(). */
MZ_API Tensor affine(const Tensor& image, const AffineOptions& options);

// The functions below take f32 images [C,H,W] with values in 0..1 and C = 1 or 3, compute in f32
// and clamp to 0..1. Errors: DtypeError, ShapeError, DeviceError for other images; ValueError for a
// negative factor, and a hue outside -0.5..0.5.

/** Returns the image multiplied by a factor. */
MZ_API Tensor adjust_brightness(const Tensor& image, double factor);
/** Returns factor * image + (1 - factor) * m, where m is the mean of its grey values. */
MZ_API Tensor adjust_contrast(const Tensor& image, double factor);
/** Returns factor * image + (1 - factor) * grey, where grey is 0.2989 R + 0.587 G + 0.114 B. An
 *  image of one channel is returned as it is. */
MZ_API Tensor adjust_saturation(const Tensor& image, double factor);
/** Returns the image with its hue, in HSV a number in 0..1, moved around the colour circle. An
 *  image of one channel is returned as it is. */
MZ_API Tensor adjust_hue(const Tensor& image, double hue);

}  // namespace mezzo::data
