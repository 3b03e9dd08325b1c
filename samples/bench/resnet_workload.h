// The workload of ResNets.
#pragma once

#include "workload.h"

namespace samples {

/** Returns a workload that trains a ResNet on coloured digits of `pixels` x `pixels` with SGD and
 *  momentum. Images and weights are channels-last at size full. */
std::unique_ptr<Workload> resnet_workload(const Setting& setting,
                                          const mezzo::nn::models::ResNetOptions& options,
                                          std::int64_t pixels, std::int64_t batch);

}  // namespace samples
