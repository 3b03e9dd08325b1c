// What the ResNets of the bench have in common.
// Sees: workload.h.
// Read next: nets/resnet18.cpp, nets/resnet50.cpp, ../nets/resnet.h.
#pragma once

#include "../nets/resnet.h"
#include "workload.h"

namespace samples {

/** Trains such a net on coloured digits of `pixels` x `pixels` with SGD and momentum. */
std::unique_ptr<Workload> resnet_workload(const Setting& setting, const ResNetOptions& options,
                                          std::int64_t pixels, std::int64_t batch);

}  // namespace samples
