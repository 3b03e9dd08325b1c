// Transforms of images and batches, with torchvision's names and defaults.
// See also: image_functions.h (what they do, without randomness).
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "../../tensor/core/tensor.h"
#include "../../tensor/ops/conv/window.h"
#include "batch.h"

namespace mezzo::data {

// An image is a CPU tensor [C,H,W], and further dimensions may precede. Each random transform takes
// one draw of the default generator in each call, whatever it decides.

/** Converts u8 in 0..255 to floating-point numbers in 0..1, or one floating-point dtype to another.
 */
struct MZ_API ConvertImageDtype {
  DType dtype = f32;  // of the result
  /** Returns the converted image. Errors: DtypeError for an image or a result of another kind. */
  Tensor operator()(const Tensor& image) const;
};

/** Subtracts the mean of each channel and divides by its standard deviation. */
struct MZ_API Normalize {
  /** Mean of each channel, or one number for all. */
  std::vector<float> mean, deviation;  // standard deviation likewise
  /** Returns the normalised f32 image. Errors: DtypeError unless it is f32; ShapeError for less
   *  than 3 dimensions or another number of channels; ValueError for a deviation of 0. */
  Tensor operator()(const Tensor& image) const;
};

/** Resizes images with antialiased bilinear interpolation. */
struct MZ_API Resize {
  std::int64_t size = 0;   // of the shorter side, or the height where a width is given
  std::int64_t width = 0;  // 0: the ratio of the sides is kept, and the longer one rounded down
  /** Returns the resized image, u8 or floating-point. Errors: ValueError for a size
   *  outside 1..65536, ShapeError for less than 3 dimensions or no pixel; DtypeError. */
  Tensor operator()(const Tensor& image) const;
};

/** Cuts out the middle. Images that are too small are padded with zeros. */
struct MZ_API CenterCrop {
  WindowSizes size;  // height and width of the result
  /** Returns the middle of the image, which shares memory if it is not padded. Errors: ValueError
   *  for a size below 1, ShapeError for less than 2 dimensions. */
  Tensor operator()(const Tensor& image) const;
};

/** Cuts out a window at a random place. */
struct MZ_API RandomCrop {
  WindowSizes size;          // height and width of the result
  std::int64_t padding = 0;  // pixels around the image before it is cut
  double fill = 0;           // value of the padding
  /** Returns a window of the image. Errors: ValueError for a size below 1 or a negative padding;
   *  ShapeError for an image of less than 2 dimensions, or smaller than the window. */
  Tensor operator()(const Tensor& image) const;
};

/** Cuts out a window of random area and ratio of sides, and resizes it as Resize. */
struct MZ_API RandomResizedCrop {
  WindowSizes size;                          // height and width of the result
  std::pair<double, double> scale{0.08, 1};  // area of the window, as a part of the image
  /** Width of the window divided by its height, whose logarithm is uniform. */
  std::pair<double, double> ratio{3.0 / 4, 4.0 / 3};
  /** Returns a window of the image, resized. If ten windows do not fit into the image, it is the
   *  largest in the middle that has a ratio in the range. Errors: ValueError for a size below 1 and
   *  ranges that are not of numbers above 0, the smaller first; those of Resize. */
  Tensor operator()(const Tensor& image) const;
};

/** Exchanges left and right with a probability. */
struct MZ_API RandomHorizontalFlip {
  double p = 0.5;  // the probability
  /** Returns the image or its mirror image. Errors: ValueError unless 0 <= p <= 1; IndexError. */
  Tensor operator()(const Tensor& image) const;
};

/** Exchanges top and bottom with a probability. */
struct MZ_API RandomVerticalFlip {
  double p = 0.5;  // the probability
  /** Returns the image or its mirror image. Errors: ValueError unless 0 <= p <= 1; IndexError. */
  Tensor operator()(const Tensor& image) const;
};

/** Rotates by a random angle about the centre. */
struct MZ_API RandomRotation {
  double degrees = 0;  // the angle is uniform in -degrees..degrees
  double fill = 0;     // value of pixels outside the image
  /** Returns rotate() of the image. Errors: ValueError for negative degrees; those of rotate(). */
  Tensor operator()(const Tensor& image) const;
};

/** Changes brightness, contrast, saturation and hue, in random order. A factor of b is uniform in
 *  max(0, 1 - b)..1 + b, the change of the hue uniform in -hue..hue. */
struct MZ_API ColorJitter {
  double brightness = 0;  // at least 0
  double contrast = 0;    // as brightness
  double saturation = 0;  // as brightness
  double hue = 0;         // 0..0.5, as a part of the colour circle
  /** Returns the changed f32 image in 0..1. Errors: ValueError for invalid options; those of
   *  adjust_hue(). */
  Tensor operator()(const Tensor& image) const;
};

/** Overwrites a window of random area and ratio of sides with a value, with a probability. Source:
 *  Zhong et al., Random erasing data augmentation, AAAI 2020. */
struct MZ_API RandomErasing {
  double p = 0.5;                               // the probability
  std::pair<double, double> scale{0.02, 0.33};  // area of the window, as a part of the image
  std::pair<double, double> ratio{0.3, 3.3};    // height of the window divided by its width
  std::optional<double> value = 0;              // none: each pixel is normally distributed
  /** Returns a changed copy, or the image. If ten windows are not smaller than the image in both
   *  directions, nothing is erased. Errors: ValueError for invalid options; ShapeError for less
   * than 3 dimensions; DtypeError for random pixels of an image that is not floating-point. */
  Tensor operator()(const Tensor& image) const;
};

/** Blurs by a Gaussian of random deviation. */
struct MZ_API GaussianBlur {
  std::int64_t kernel_size = 3;             // pixels in each direction, odd
  std::pair<double, double> sigma{0.1, 2};  // the deviation is uniform in this range
  /** Returns gaussian_blur() of the image. Errors: ValueError for invalid options; those of
   *  gaussian_blur(). */
  Tensor operator()(const Tensor& image) const;
};

/** Turns, moves, scales and shears by random amounts. */
struct MZ_API RandomAffine {
  double degrees = 0;                     // the angle is uniform in -degrees..degrees
  std::pair<double, double> translate{};  // largest moves, as parts of width and height: 0..1
  std::pair<double, double> scale{1, 1};  // the factor is uniform in this range
  std::pair<double, double> shear{};      // along x: uniform in this range of degrees
  double fill = 0;                        // value of pixels outside the image
  /** Returns affine() of the image. Errors: ValueError for invalid options; those of affine(). */
  Tensor operator()(const Tensor& image) const;
};

/** Blends each sample of a batch with the one before it, and their targets: x becomes
 *  lambda x + (1 - lambda) roll(x, 1), where lambda has the distribution Beta(alpha, alpha). Takes
 *  one draw of the default generator in each call:
 *    const data::MixUp mixup{.num_classes = 10, .alpha = 0.2};
 *    for (const Batch& plain : batches) { const Batch batch = mixup(plain); ...
 *  Source: Zhang et al., mixup, ICLR 2018; torchvision.transforms.v2.MixUp. */
struct MZ_API MixUp {
  std::int64_t num_classes = 0;  // of targets that are classes; 0: targets are blended as they are
  double alpha = 1;              // above 0; the smaller, the less is blended

  /** Returns the blended batch, whose targets, for cross_entropy(), are probabilities [N,classes]
   * in the dtype of x. Errors: ValueError for invalid options; DtypeError for x that is not
   *  floating-point, and targets that are classes without num_classes; ShapeError for targets that
   *  are classes but not [N]. */
  Batch operator()(const Batch& batch) const;
};

}  // namespace mezzo::data
