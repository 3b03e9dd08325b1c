// The register blocks of float products, in a separate file because they compile slowly.
#include "gemm_micro.h"

namespace mezzo::cpu_kernels {

template <> const MicroKernels<float>& micro_kernels<float>() {
  static constexpr MicroKernels<float> kKernels = make_micro_kernels<float>();
  return kKernels;
}

}  // namespace mezzo::cpu_kernels
