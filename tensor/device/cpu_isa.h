// The instruction set that the kernels of the CPU use.
#pragma once

#include <cstdint>
#include <string>

#include "../core/dtype.h"
#include "../core/macros.h"
#include "device.h"

namespace mezzo {

/** An instruction set that kernels are compiled for. Each one includes those before it. */
enum class CpuIsa : std::uint8_t {
  baseline,  // none of the following: the library was built for another -march or processor
  v3,        // x86-64-v3: AVX2, FMA, F16C
  v4,        // x86-64-v4: AVX-512 F, BW, CD, DQ and VL
  v4_bf16,   // x86-64-v4 and AVX512-BF16
};
/** The number of enumerators of CpuIsa. */
inline constexpr int kNumCpuIsas = 4;

/** Returns the instruction set that the kernels use. A portable build (-Dcpu_arch=portable)
 *  contains kernels for v3, v4 and v4_bf16 and chooses the best one that this CPU has, once, at the
 *  first call of a kernel or of this function. The environment variable MEZZO_CPU_ISA (v3, v4 or
 *  bf16) chooses a lower one. Another build has the kernels of one -march. Errors: ValueError if
 *  MEZZO_CPU_ISA is not a name of one that this CPU has and this build contains; Unsupported if the
 *  CPU lacks v3, in a portable build. A kernel of a portable build throws the same errors. */
MZ_API CpuIsa cpu_isa();

/** Returns whether products of bf16 operands on the CPU use its own instructions for them:
 * cpu_isa() is v4_bf16, and exact_products() is off. Errors: as cpu_isa() and exact_products(). */
MZ_API bool cpu_multiplies_bf16();
/** Returns true if a device computes products of this dtype in f32 after conversion, so that they
 *  are no faster than in f32: f16 on every CPU, bf16 where cpu_multiplies_bf16() is false. Errors:
 *  as cpu_multiplies_bf16(). */
MZ_API bool emulates_products(DType dtype, Device device);

/** Returns "baseline", "v3", "v4" or "bf16". */
MZ_API std::string str(CpuIsa isa);

}  // namespace mezzo
