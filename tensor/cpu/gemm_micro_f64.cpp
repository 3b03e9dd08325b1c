// The register blocks of double products, in a separate file because they compile slowly.
#include "gemm_micro.h"

namespace mezzo::cpu_kernels {

const MicroKernels<double> kMicroKernelsF64 = make_micro_kernels<double>();

}  // namespace mezzo::cpu_kernels
