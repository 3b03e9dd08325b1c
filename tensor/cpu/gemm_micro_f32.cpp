// The register blocks of float products, in a separate file because they compile slowly.
#include "gemm_micro.h"

namespace mezzo::cpu_kernels {

const MicroKernels<float> kMicroKernelsF32 = make_micro_kernels<float>();

}  // namespace mezzo::cpu_kernels
