// Which unit computes products by tiles: the instructions of AMX, or their model.
#pragma once

#include "cpu_isa.h"

namespace mezzo {

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
