// The workload of mnist --net mlp: a multi-layer perceptron.
#include "../../nets/mlp.h"

#include "../net_workloads.h"

namespace samples {

std::unique_ptr<Workload> make_mlp(const Setting& s) {
  return digits_workload(s, Mlp(s.pick_width(64, 1024, 4096)), s.pick_batch(16, 128, 512));
}

}  // namespace samples
