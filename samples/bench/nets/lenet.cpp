// The workload of mnist --net lenet: a convolutional net.
#include "../../nets/lenet.h"

#include "../net_workloads.h"

namespace samples {

std::unique_ptr<Workload> make_lenet(const Setting& s) {
  return digits_workload(s, LeNet(s.pick_width(4, 32, 32)), s.pick_batch(8, 128, 1024));
}

}  // namespace samples
