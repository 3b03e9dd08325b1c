// run_row: one row on the device, compared with the CPU and with our own kernels, and timed.
// Sees: row.h, supervisor.h.
// Read next: run_row.cpp, main.cpp.
#pragma once

#include "row.h"
#include "supervisor.h"

namespace smoke {

/** tiny: one call is timed and its size is that of the comparison, as an emulated device needs it. */
Verdict run_row(const Row& row, Device device, bool tiny);

}  // namespace smoke
