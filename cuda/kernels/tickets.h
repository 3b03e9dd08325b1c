// Tickets: counters that identify the last block of a group to finish; it combines the group's
// results. Flags: how blocks that wait for each other say how far they are. Parsed by g++ and by
// nvcc.
#pragma once

#include "../../tensor/core/tensor.h"

namespace mezzo::gpu {

inline constexpr int kTickets = 64;

/** Returns kTickets counters of a device's current stream, or of the step that is captured. They
 *  are 0 whenever no kernel uses them. Kernels of one stream, and replays of one step, do not run
 *  at the same time. */
unsigned* tickets(Device device);

/** Flags that fill a line of the cache, and lines of them. */
inline constexpr int kLineFlags = 32, kFlagLines = 64;

/** Returns kFlagLines * kLineFlags flags. They begin with a line, and are 0 whenever no kernel uses
 *  them, as the counters. */
unsigned* flags(Device device);

}  // namespace mezzo::gpu
