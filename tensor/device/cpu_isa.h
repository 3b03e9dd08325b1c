// The instruction set that the kernels of the CPU use, and the unit that computes products by
// tiles.
#pragma once

#include <cstdint>
#include <string>

#include "../core/dtype.h"
#include "../core/macros.h"
#include "device.h"

namespace mezzo {

/** An instruction set that kernels use. Each one includes those before it. */
enum class CpuIsa : std::uint8_t {
  baseline,  // none of the following: the library was built for another -march or processor
  v3,        // x86-64-v3: AVX2, FMA, F16C
  v4,        // x86-64-v4: AVX-512 F, BW, CD, DQ and VL
  v4_bf16,   // x86-64-v4 and AVX512-BF16
  v4_amx,    // the same, and AMX-TILE and AMX-BF16
};
/** The number of enumerators of CpuIsa. */
inline constexpr int kNumCpuIsas = 5;

/** Returns the instruction set that the kernels use: the one by which this CPU multiplies fastest,
 *  chosen once, at the first call of a kernel or of this function. A portable build
 *  (-Dcpu_arch=portable) contains kernels for v3, v4 and v4_bf16; the last one also multiply by
 *  AMX. Another build has the kernels of one -march; if that has AVX512-BF16, only the way in which
 *  products of 16-bit operands are computed is chosen.
 *
 *  - v4_amx: if the CPU has AMX and the kernel permits it. The permission is requested at the
 *    choice; if it is refused, a warning is logged. (Linux refuses it while a thread has a signal
 *    stack of less than about 11 KB.)
 *  - v4_bf16: if the CPU has AVX512-BF16, and multiplies bf16 faster by it than f32: AMD's since
 *    Zen 4 and Intel's Cooper Lake do. Intel's later CPUs take twice as long as for f32 (measured
 * on Emerald Rapids), so without AMX they use v4.
 *  - v4, v3: otherwise; bf16 is then multiplied in f32.
 *
 *  The environment variable MEZZO_CPU_ISA (v3, v4, bf16 or amx) chooses another one that this CPU
 *  has. Errors: ValueError if MEZZO_CPU_ISA is not a name of one that this CPU, the system and this
 *  build have (the text says which of them lacks it); Unsupported if the CPU lacks v3, in a
 *  portable build. A kernel of a portable build throws the same errors. */
MZ_API CpuIsa cpu_isa();

/** Returns whether products of bf16 operands on the CPU use its own instructions for them:
 *  cpu_isa() is v4_bf16 or v4_amx, and exact_products() is off. Errors: as cpu_isa() and
 *  exact_products(). */
MZ_API bool cpu_multiplies_bf16();
/** Returns how products of 16-bit operands are computed on the CPU, which decides their last bits:
 *  "bf16" or "amx" where cpu_multiplies_bf16(), else "f32". Errors: as cpu_multiplies_bf16(). */
MZ_API std::string cpu_product_kind();
/** Returns true if a device computes products of this dtype in f32 after conversion, so that they
 *  are no faster than in f32: bf16 where cpu_multiplies_bf16() is false; f16 on the CPU, unless
 *  cpu_isa() is v4_amx and exact_products() is off. Errors: as cpu_multiplies_bf16(). */
MZ_API bool emulates_products(DType dtype, Device device);

/** Returns "baseline", "v3", "v4", "bf16" or "amx". */
MZ_API std::string str(CpuIsa isa);

/** Returns whether products by tiles are computed by a model of the instructions (gemm_tile.cpp),
 *  which has the same bits and the speed of f32 arithmetic. Default: off. */
MZ_API bool models_tiles();
/** Sets models_tiles(), so that tests run products by tiles on CPUs without AMX. Kernels that were
 *  not compiled for AVX512-BF16 have no tiles and are not affected. */
MZ_API void set_models_tiles(bool on);

/** Returns the instruction set by which products of 16-bit operands are computed: cpu_isa(), or
 *  v4_amx if models_tiles(). Errors: as cpu_isa(). */
MZ_API CpuIsa product_isa();

}  // namespace mezzo
