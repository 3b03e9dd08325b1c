// The workload of dcgan --gradient-penalty, with double backward in every step.
#include "../net_workloads.h"

namespace samples {

std::unique_ptr<Workload> make_wgan_gp(const Setting& s) { return gan_workload(s, true); }

}  // namespace samples
