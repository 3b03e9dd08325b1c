// run_row(): runs a row on the device, compares it with the CPU and our own kernels, and times it.
#pragma once

#include "row.h"
#include "supervisor.h"

namespace smoke {

/** Runs a row. tiny: times one call at the size of the comparison, for an emulated device. */
Verdict run_row(const Row& row, Device device, bool tiny);

}  // namespace smoke
