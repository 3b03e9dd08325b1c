// relu_mask(): the bits by which cuBLASLt gates a product with the gradient of relu. Parsed by g++
// and by nvcc.
#pragma once

#include "../../../tensor/core/tensor.h"

namespace mezzo::gpu {

/** Returns the bits per row of n elements in a mask: n rounded up to 128, as cuBLASLt requires. */
constexpr std::int64_t mask_bits(std::int64_t n) { return (n + 127) / 128 * 128; }

/** Returns a mask of rows of mask_bits(n) bits for y, a row-major result of relu in f16, bf16 or
 *  f32 whose rows have n elements: bit j % 8 of byte j / 8 is 0 where y <= 0, as the gradient of
 *  relu is. cuBLASLt's own mask has a 1 where the argument is 0. Source of the layout: the tests of
 *  NVIDIA's nvmath-python. Errors: CudaError. */
Tensor relu_mask(const Tensor& y, std::int64_t n);

}  // namespace mezzo::gpu
