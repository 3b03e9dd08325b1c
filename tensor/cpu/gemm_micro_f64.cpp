// The register blocks of double products, in a separate file because they compile slowly.
#include "gemm_micro.h"

namespace mezzo::cpu_kernels {

template <> const MicroKernels<double>& micro_kernels<double>() {
  static constexpr MicroKernels<double> kKernels = make_micro_kernels<double>();
  return kKernels;
}

}  // namespace mezzo::cpu_kernels
