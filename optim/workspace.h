// add_workspace(): a tensor per parameter that lives until the end of a step.
#pragma once

#include <span>

#include "../tensor/core/tensor.h"
#include "../tensor/memory/allocator.h"
#include "multi_tensor.h"

namespace mezzo::optim {

/** Allocates a tensor like each parameter, in its compute dtype, as the state number `state` of the
 *  formulas. It is freed with `tensors`, at the end of the step. Errors: OutOfMemory. */
inline void add_workspace(std::span<UpdateTensors> tensors, std::size_t state) {
  const CategoryScope workspace(MemoryCategory::workspace);
  for (UpdateTensors& t : tensors)
    t.state[state] = empty_tensor(t.param.shape(), compute_dtype(t.param.dtype()), t.param.device(),
                                  false, t.param.memory_format());
}

}  // namespace mezzo::optim
