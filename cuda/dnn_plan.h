// A plan: the engine that cuDNN chose for a convolution, ready to run.
// Sees: dnn.h, dnn_library.h.
// Read next: dnn_plan.cpp, dnn.cpp (who keeps plans).
#pragma once

#include <optional>

#include "dnn.h"
#include "dnn_library.h"

namespace mezzo::gpu::dnn {

/** What a plan is for: the device of a handle, or one that is only described, for looking at plans where there is none. */
struct Target {
  cudnnHandle_t handle = nullptr;
  const Descriptor* properties = nullptr;
};

/** The arrays of a plan by name. */
enum ArrayName : std::int64_t { kX = 'x', kWeight = 'w', kY = 'y', kBias = 'b' };

struct Plan {
  Descriptor engine;  // an execution plan of the library's
  std::int64_t workspace = 0;
  bool tensor_cores = false;
};

/** The first engine of the library's own order that the process's switches allow (numerics.h): in precision, and whether it must give the same bits
 *  every time; none where it has none. */
std::optional<Plan> plan(const Convolution& convolution, const Target& target);

}  // namespace mezzo::gpu::dnn
