// Recorded work of a device: what a capture of its stream gives, and the memory that it works in.
// Sees: ../tensor/backend.h.
// Read next: recording.cpp, graph.h (what users see of it).
#pragma once

#include <memory>

#include "../tensor/backend.h"

namespace mezzo::gpu {

/** Begins to record this thread's work for the device. Errors: CudaError. */
std::unique_ptr<RecordedWork> record_work(Device device);

}  // namespace mezzo::gpu
