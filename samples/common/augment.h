// Data augmentation: random shifts and flips of images.
#pragma once

#include <mezzo.h>

namespace samples {

struct AugmentOptions {
  std::int64_t padding = 4;  // maximum shift in pixels in each direction; new pixels are 0
  bool flip = true;          // flips left and right with probability 1/2; turn off for digits
};

/** Returns the images [N,C,H,W] (f32, CPU), each shifted and flipped separately. Takes two draws
 *  of this thread's default generator. */
mezzo::Tensor augment(const mezzo::Tensor& images, const AugmentOptions& options = {});

}  // namespace samples
