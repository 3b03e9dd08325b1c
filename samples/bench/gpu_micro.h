// bench --micro --device cuda: what the kernels reach of what the GPU can do, and how long a captured step takes.
// Sees: micro.h, workload.h.
// Read next: gpu_micro.cpp.
#pragma once

#include "micro.h"
#include "workload.h"

namespace samples {

/** Bandwidth of copying, the parts of it that the optimizer and the norms reach, matrix products by cuBLASLt's guess against the fastest algorithm that it
 *  offers, and captured training steps. The project's targets are for a GPU of the H100's class and --size full. One that fails becomes a result
 *  with an error. */
void run_gpu_micro(mezzo::Device device, Size size, MicroResults& results);

}  // namespace samples
