// What the emulated device can do, for tests of kernels that depend on it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../../tensor/core/macros.h"

namespace mezzo::emulator {

/** Sets the compute capability, as 10 * major + minor. The default is 90. */
MZ_API void set_compute_capability(int capability);

/** Bytes of shared memory that a block may have with runtime::allow_shared(), from compute
 * capability 8.0 on. */
inline constexpr std::size_t kMostShared = 99 << 10;

/** Sets how many blocks of a cooperative launch run at once, 0 for a device without such launches.
 *  The default is small, because each of their threads needs a stack. */
MZ_API void set_resident_blocks(std::int64_t blocks);
/** Returns that number; in a dry run that of the reference GPU, with one block per
 *  multiprocessor. */
MZ_API std::int64_t resident_block_limit();

}  // namespace mezzo::emulator
