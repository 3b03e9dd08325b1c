// The register blocks of float convolutions, in a separate file because they compile slowly.
#include "conv_micro_cpu.h"

namespace mezzo::cpu_kernels {

template <> const OffsetKernels<float>& offset_kernels<float>() {
  static constexpr OffsetKernels<float> kKernels = make_offset_kernels<float>();
  return kKernels;
}

}  // namespace mezzo::cpu_kernels
