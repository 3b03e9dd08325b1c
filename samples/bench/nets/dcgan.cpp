// The workload of dcgan: a generator and a discriminator.
#include "../gan_workload.h"

namespace samples {

std::unique_ptr<Workload> make_dcgan(const Setting& s) { return gan_workload(s, false); }

}  // namespace samples
