// ResNet-50 as for ImageNet: 7x7 stem with stride 2 and pooling, images of 224 x 224 where they are whole.
#include "../resnet_workload.h"

namespace samples {

std::unique_ptr<Workload> make_resnet50(const Setting& s) {
  const ResNetOptions options{
      .depth = 50, .small_images = false, .width = s.pick(4, 16, 64), .classes = s.pick(10, 10, 1000)};
  return resnet_workload(s, options, s.pick(64, 64, 224), s.pick_batch(16, 8, 64));
}

}  // namespace samples
