// Tickets: counters that identify the last block of a group to finish; it combines the group's
// results. Parsed by g++ and by nvcc.
#pragma once

#include "../../tensor/core/tensor.h"

namespace mezzo::gpu {

inline constexpr int kTickets = 64;

/** Returns kTickets counters of a device's current stream, or of the step that is captured. They
 *  are 0 whenever no kernel uses them. Kernels of one stream, and replays of one step, do not run
 *  at the same time. */
unsigned* tickets(Device device);

}  // namespace mezzo::gpu
