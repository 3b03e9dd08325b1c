// The workload of dcgan: a generator and a discriminator.
#include "../net_workloads.h"

namespace samples {

std::unique_ptr<Workload> make_dcgan(const Setting& s) { return gan_workload(s, false); }

}  // namespace samples
