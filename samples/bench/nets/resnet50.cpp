// The workload of ResNet-50 with ImageNet's stem (7x7 with stride 2, pooling). At size full, the
// images are 224 x 224.
#include "../net_workloads.h"

namespace samples {

using namespace mezzo;

std::unique_ptr<Workload> make_resnet50(const Setting& s) {
  const nn::models::ResNetOptions options{.depth = 50,
                                          .num_classes = s.pick(10, 10, 1000),
                                          .width = s.pick_width(4, 16, 64),
                                          .zero_init_residual = true};
  return resnet_workload(s, options, s.pick(64, 64, 224), s.pick_batch(16, 8, 256));
}

}  // namespace samples
