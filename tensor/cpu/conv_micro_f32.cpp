// The register blocks of float convolutions, in a separate file because they compile slowly.
#include "conv_micro.h"

namespace mezzo::cpu_kernels {

const OffsetKernels<float> kOffsetKernelsF32 = make_offset_kernels<float>();

}  // namespace mezzo::cpu_kernels
