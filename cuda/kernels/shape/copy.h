// Copying elements on the device as part of another kernel. Parsed by g++ and by nvcc.
#pragma once

#include "../../../tensor/core/tensor.h"

namespace mezzo::gpu {

/** Copies `from` into `to`, broadcast and converted. A 0-dim source may be on the CPU. */
void copy_elements(const Tensor& from, Tensor& to);

/** Sets all elements of `to` to a number, rounded once. */
void fill_elements(Tensor& to, double value);

/** Copies x into `out` before a kernel changes some elements. Does nothing for an in-place call. */
void start_from(const Tensor& x, Tensor& out);

}  // namespace mezzo::gpu
