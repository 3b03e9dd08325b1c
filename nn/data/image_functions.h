// Functions of images that image_transforms.h applies with random arguments, as in
// torchvision.transforms.functional.
#pragma once

#include "../../tensor/core/tensor.h"

namespace mezzo::data {

/** Returns an image [..., H, W] of any dtype, rotated anticlockwise about its centre, in the same
 *  size. A pixel is that at the nearest place of the image (ties to even), or `fill` outside.
 *  Errors: ValueError for an angle that is not finite, ShapeError for less than 2 dimensions,
 *  DeviceError unless it is on the CPU. */
MZ_API Tensor rotate(const Tensor& image, double degrees, double fill = 0);

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
