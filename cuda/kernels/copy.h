// Copying elements on the device as part of another kernel.
// Sees: ../../tensor/tensor.h; parsed by nvcc too.
// Read next: copy.cu.
#pragma once

#include "../../tensor/tensor.h"

namespace mezzo::gpu {

/** to = from, broadcast and converted; a 0-dim source may be on the CPU. */
void copy_elements(const Tensor& from, Tensor& to);

/** Gives `out` the elements of x before a kernel changes some of them; in place they are there already. */
void start_from(const Tensor& x, Tensor& out);

}  // namespace mezzo::gpu
