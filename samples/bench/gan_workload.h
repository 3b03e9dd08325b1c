// What the adversarial nets of the bench have in common.
// Sees: workload.h.
// Read next: nets/dcgan.cpp, nets/wgan_gp.cpp, ../nets/gan_game.h.
#pragma once

#include "workload.h"

namespace samples {

/** A turn each of discriminator and generator per step; the loss is the discriminator's. */
std::unique_ptr<Workload> gan_workload(const Setting& setting, bool penalty);

}  // namespace samples
