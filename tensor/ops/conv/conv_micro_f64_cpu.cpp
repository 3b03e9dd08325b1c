// The register blocks of double convolutions, in a separate file because they compile slowly.
#include "conv_micro_cpu.h"

namespace mezzo::cpu_kernels {

template <> const OffsetKernels<double>& offset_kernels<double>() {
  static constexpr OffsetKernels<double> kKernels = make_offset_kernels<double>();
  return kKernels;
}

}  // namespace mezzo::cpu_kernels
