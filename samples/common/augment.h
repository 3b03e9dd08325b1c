// Images changed at random while training, so that a net sees each a little differently every time.
// Sees: mezzo.h.
// Read next: ../resnet.cpp.
#pragma once

#include <mezzo.h>

namespace samples {

struct AugmentOptions {
  std::int64_t padding = 4;  // an image moves by up to so many pixels each way; what comes in is 0
  bool flip = true;  // left and right change places at probability 1/2; not for what is read, such as digits
};

/** Images [N,C,H,W] in f32 on the CPU, each moved and flipped for itself. Takes two draws of this thread's default generator. */
mezzo::Tensor augment(const mezzo::Tensor& images, const AugmentOptions& options = {});

}  // namespace samples
