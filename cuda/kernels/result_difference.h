// compare_results(): how far a library's results are from those of Mezzo's own kernels. Parsed by
// g++ and by nvcc.
#pragma once

#include "../../tensor/core/tensor.h"

namespace mezzo::gpu {

/** The difference of two results of one dtype. */
struct Difference {
  double apart = 0;    // largest |library - own| where own is finite; nan where the library has nan
  double largest = 0;  // largest finite |own|
  double squares = 0;  // sum of the squares of finite elements of own
  bool alike = true;   // where own has nan or infinity, the library has the same
  bool finite = true;  // own has neither nan nor infinity
};

/** Compares two floating-point tensors of one shape and dtype. An infinity of the library beside a
 *  finite number counts as the dtype's largest number, which an overflow may round to. Synchronises
 *  with the device. Errors: CudaError, OutOfMemory. */
Difference compare_results(const Tensor& library, const Tensor& own);

/** Returns the root of the mean square of a tensor; nan if it has nan or infinity. */
double root_mean_square(const Tensor& x);

}  // namespace mezzo::gpu
