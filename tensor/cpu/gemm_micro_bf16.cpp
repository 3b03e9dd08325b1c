// The register blocks of bf16 products on CPUs with instructions for them, in a separate file
// because they compile slowly.
#include "gemm_micro.h"

namespace mezzo::cpu_kernels {

#if defined(__AVX512BF16__)
template <> const MicroKernels<BFloat16Pair>& micro_kernels<BFloat16Pair>() {
  static constexpr MicroKernels<BFloat16Pair> kKernels = make_micro_kernels<BFloat16Pair>();
  return kKernels;
}
#endif

}  // namespace mezzo::cpu_kernels
