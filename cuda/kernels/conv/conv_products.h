// Convolutions with a kernel of one element as matrix products. Parsed by g++ and by nvcc.
#pragma once

#include "../../dnn/dnn.h"

namespace mezzo::gpu {

/** A convolution y = x * weight + bias, or one of its gradients. x, y and weight are dense in the
 *  format; the one that is wanted is written. A bias is added to the array that is wanted. */
struct ConvCall {
  dnn::Convolution::Wanted wanted = dnn::Convolution::Wanted::y;
  int dims = 2;  // spatial dimensions of x and y
  MemoryFormat format = MemoryFormat::contiguous;
  op::ConvGeometry geometry = {};
  Tensor x = {}, y = {}, weight = {}, bias = {};
};

/** Returns true if run_conv_products() serves a call: f32, a kernel of one element, one group, no
 *  padding. cuBLASLt multiplies f32 at twice the rate of cuDNN's convolutions, which are the faster
 *  ones in 16 bits. */
bool are_conv_products(const ConvCall& call);

/** Enqueues the call as products: channels-last of all positions with the channels, row-major of
 *  each image. With strides, the positions that the kernel reaches are copied. Sums have the order
 *  of the products, which is the same in every run. Errors: CudaError. */
void run_conv_products(const ConvCall& call);

}  // namespace mezzo::gpu
