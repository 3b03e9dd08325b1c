// record_work(): records a thread's device work for Graph.
#pragma once

#include <memory>

#include "../../tensor/device/backend.h"

namespace mezzo::gpu {

/** Begins to record this thread's work for the device, with a memory pool for it. Errors:
 *  CudaError. */
std::unique_ptr<RecordedWork> record_work(Device device);

}  // namespace mezzo::gpu
