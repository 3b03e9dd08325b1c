// The register blocks of float products, in a file of their own because they take long to compile.
#include "gemm_micro.h"

namespace mezzo::cpu_kernels {

const MicroKernels<float> kMicroKernelsF32 = make_micro_kernels<float>();

}  // namespace mezzo::cpu_kernels
