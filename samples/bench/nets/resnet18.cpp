// The workload of ResNet-18 with CIFAR's 3x3 stem and images of 32 x 32.
#include "../net_workloads.h"

namespace samples {

std::unique_ptr<Workload> make_resnet18(const Setting& s) {
  const nn::models::ResNetOptions options{.depth = 18,
                                          .num_classes = 10,
                                          .width = s.pick_width(4, 16, 64),
                                          .small_images = true,
                                          .zero_init_residual = true};
  return resnet_workload(s, options, s.pick(16, 32, 32), s.pick_batch(16, 32, 256));
}

}  // namespace samples
