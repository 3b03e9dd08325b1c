// bench --micro --device cuda: the speed of kernels relative to the GPU's limits, and the time of
// captured steps.
#pragma once

#include "micro.h"
#include "workload.h"

namespace samples {

/** Measures the copy bandwidth, the share of it that optimizer and norms reach, matrix products
 *  with cuBLASLt's heuristic relative to its fastest algorithm, and captured training steps. The
 *  targets are for a GPU of the H100's class and --size full. A failed measurement becomes a result
 *  with an error. */
void run_gpu_micro(mezzo::Device device, Size size, MicroResults& results);

}  // namespace samples
