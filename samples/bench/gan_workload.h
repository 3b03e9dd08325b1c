// The workload of adversarial nets.
#pragma once

#include "workload.h"

namespace samples {

/** Returns a workload whose step updates discriminator and generator. The loss is the
 *  discriminator's. */
std::unique_ptr<Workload> gan_workload(const Setting& setting, bool penalty);

}  // namespace samples
