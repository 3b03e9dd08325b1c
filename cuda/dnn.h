// The convolution as cuDNN takes it: one struct, one call, so narrow that the emulated build puts its own behind it.
// Sees: ../tensor/ops/conv_geometry.h, runtime.h.
// Read next: dnn.cpp (on cuDNN), ../tests/emulator/dnn.cpp (on the host), kernels/conv.cu (who calls it).
#pragma once

#include <string>

#include "../tensor/ops/conv_geometry.h"
#include "runtime.h"

namespace mezzo::gpu::dnn {

/** y = x convolved with w, plus a bias; and the same three arrays with another one wanted. Without gaps, of one floating dtype; sums in f32 (f64),
 *  one rounding. */
struct Convolution {
  enum class Wanted : std::uint8_t { y, x, weight };
  Wanted wanted = Wanted::y;
  int dims = 2;                                    // spatial dimensions that count; the others have size 1
  MemoryFormat format = MemoryFormat::contiguous;  // of x, y and the weight
  op::Volume x = {}, y = {};                       // the geometry's in and out
  op::ConvGeometry geometry = {};
  const void* weight = nullptr;  // (y's channels, x's channels / groups, taps)
  const void* bias = nullptr;    // one element for each channel of y, of the same dtype; where y is wanted
};

/** Puts the convolution into the stream. False where there is no cuDNN or it has no engine for this: then nothing was done. Only engines that
 *  give the same bits every time unless allow_nondeterministic(), and for f32 no Tensor Cores unless allow_tf32(). Errors: CudaError. */
bool convolve(const Convolution& convolution, Device device, runtime::Stream stream);

/** Version of the library that was loaded, or why there is none. */
std::string description();

}  // namespace mezzo::gpu::dnn
