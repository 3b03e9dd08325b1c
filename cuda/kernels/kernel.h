// Shared memory, launches and constants for kernel files. The emulated build includes
// tests/emulator/cuda.h before each kernel file, which provides the CUDA keywords for a C++
// compiler.
//
// Rules that keep a kernel file valid for both: no <<<>>>, no CUDA header but those of CUB that
// tests/emulator/cub/ has, too; no inline PTX without a portable branch; blocks are multiples of a
// warp; all threads of a block reach every barrier, all lanes of a warp every shuffle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "../../tensor/core/macros.h"
#include "../runtime/runtime.h"

#ifdef __CUDACC__
#  define MZ_SHARED(T, name, count) __shared__ T name[count]
#  define MZ_DYNAMIC_SHARED(T, name)                                 \
    extern __shared__ __align__(16) unsigned char mz_shared_bytes[]; \
    T* name = reinterpret_cast<T*>(mz_shared_bytes)
#endif

namespace mezzo::gpu {

inline constexpr int kWarpSize = 32;
inline constexpr unsigned kAllLanes = 0xFFFFFFFFu;

/** Launch configuration: `blocks` blocks of `threads` threads, with `shared` bytes of dynamic
 *  shared memory per block. */
struct Grid {
  std::int64_t blocks = 1;
  int threads = 256;
  std::size_t shared = 0;
  runtime::Place place = runtime::Place::current();  // place of the launch, for errors
};

constexpr std::int64_t blocks_for(std::int64_t items, std::int64_t per_block) {
  return (items + per_block - 1) / per_block;
}

inline constexpr std::int64_t kMostBlocks = 0x7FFFFFFF;  // limit of a one-dimensional grid

/** Launches a kernel in the stream. Does nothing for a grid without blocks. Errors: CudaError. */
template <class... Ps, class... As>
void launch(void (*kernel)(Ps...), const Grid& grid, runtime::Stream stream,
            const As&... arguments) {
  if (grid.blocks == 0) return;
  if (grid.blocks > kMostBlocks) runtime::refuse_launch(grid.blocks, kMostBlocks, grid.place);
#ifdef __CUDACC__
  kernel<<<static_cast<unsigned>(grid.blocks), static_cast<unsigned>(grid.threads), grid.shared,
           static_cast<cudaStream_t>(stream)>>>(arguments...);
  runtime::check_launch(grid.place);
#else
  emulator::launch({grid.place.file, grid.place.line, stream}, kernel,
                   {{static_cast<unsigned>(grid.blocks), 1, 1},
                    {static_cast<unsigned>(grid.threads), 1, 1},
                    grid.shared},
                   arguments...);
#endif
}

/** Launches a kernel whose blocks wait for each other (a cooperative launch): all of them run at
 *  once. Errors: CudaError, also for more blocks than resident_blocks(). */
template <class... Ps>
void launch_together(void (*kernel)(Ps...), const Grid& grid, runtime::Stream stream,
                     std::type_identity_t<Ps>... arguments) {
#ifdef __CUDACC__
  void* addresses[] = {&arguments...};
  runtime::launch_together(reinterpret_cast<const void*>(kernel), static_cast<int>(grid.blocks),
                           grid.threads, grid.shared, addresses, stream, grid.place);
#else
  emulator::launch({grid.place.file, grid.place.line, stream}, kernel,
                   {{static_cast<unsigned>(grid.blocks), 1, 1},
                    {static_cast<unsigned>(grid.threads), 1, 1},
                    grid.shared,
                    true},
                   arguments...);
#endif
}

/** Returns how many blocks of a kernel a device runs at once; 0 if it has no cooperative
 *  launches. */
template <class... Ps>
std::int64_t resident_blocks(void (*kernel)(Ps...), const Grid& grid, int device) {
  return runtime::resident_blocks(reinterpret_cast<const void*>(kernel), grid.threads, grid.shared,
                                  device, grid.place);
}

}  // namespace mezzo::gpu
