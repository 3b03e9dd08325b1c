// The register blocks of bf16 convolutions on CPUs with instructions for them, in a separate file
// because they compile slowly.
#include "conv_micro_cpu.h"

namespace mezzo::cpu_kernels {

#if defined(__AVX512BF16__)
template <> const OffsetKernels<BFloat16Pair>& offset_kernels<BFloat16Pair>() {
  static constexpr OffsetKernels<BFloat16Pair> kKernels = make_offset_kernels<BFloat16Pair>();
  return kKernels;
}
#endif

}  // namespace mezzo::cpu_kernels
