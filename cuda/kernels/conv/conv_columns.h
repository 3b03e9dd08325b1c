// Convolutions of few channels, whose kernel's columns become channels. Parsed by g++ and by nvcc.
#pragma once

#include "conv_products.h"

namespace mezzo::gpu {

/** Returns true if a call is better served with its kernel's columns as channels: images of 16 bits
 *  with fewer than 8 channels, channels-last. cuDNN's engines take 32 or more channels at a time,
 * so that most of what they multiply is 0 (on an H200 the first layer of ResNet-50 takes 1.5 ms, a
 *  seventh of it for its 147 terms). Not for the gradient of x. */
bool has_few_channels(const ConvCall& call);

/** Returns the same call with a kernel of one column: at each output column, x has as channels the
 *  elements that the kernel reads in a row, and zeros up to a multiple of 8. x is a copy, and so is
 *  the weight, unless it is wanted. */
ConvCall with_columns_as_channels(const ConvCall& call);

/** Copies the gradient of the weight from that of with_columns_as_channels(). */
void copy_weight_of_columns(const ConvCall& with_columns, const ConvCall& call);

}  // namespace mezzo::gpu
