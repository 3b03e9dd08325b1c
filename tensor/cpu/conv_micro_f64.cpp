// The register blocks of double convolutions, in a separate file because they compile slowly.
#include "conv_micro.h"

namespace mezzo::cpu_kernels {

const OffsetKernels<double> kOffsetKernelsF64 = make_offset_kernels<double>();

}  // namespace mezzo::cpu_kernels
