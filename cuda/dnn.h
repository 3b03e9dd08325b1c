// Convolution and attention as cuDNN takes them: a struct and a call each.
// Sees: ../tensor/ops/conv_geometry.h, runtime.h.
// Read next: dnn.cpp (which plan), dnn_calls.h (the library's calls), kernels/conv.cu and
// attention_library.cpp (who call it).
#pragma once

#include <string>
#include <vector>

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

/** Puts the convolution into the stream. False where there is no cuDNN or it has no engine for
 *  this that works. Only engines that give the same bits every time unless
 *  allow_nondeterministic(), and for f32 no Tensor Cores unless allow_tf32(). Errors: CudaError
 *  where the device is broken; CapturePostponed where a call fails within a capture. */
bool convolve(const Convolution& convolution, Device device, runtime::Stream stream);

/** y = softmax(scale q k^T) v for each head of each entry of a batch, with the logarithm of each row's sum of exponentials; or, with both given, the
 *  gradients of q, k and v. f16 or bf16; sums in f32, but probabilities, and in the gradients those of the scores, are rounded to the dtype. */
struct Attention {
  /** Matrices by entry and head, whose rows are at multiples of 16 bytes; the elements of a row lie side by side. */
  struct Rows {
    const void* data = nullptr;
    std::int64_t entry = 0, head = 0, row = 0;  // elements from one to the next
  };
  enum class Wanted : std::uint8_t { y, gradients };
  Wanted wanted = Wanted::y;
  DType dtype = DType::f16;
  std::int64_t entries = 1, heads = 1;
  std::int64_t key_heads =
      1;  // of k and v: each is for as many neighbouring heads of q; for gradients all heads have their own
  std::int64_t queries = 1, keys = 1, features = 8, values = 8;  // the last two: multiples of 8, at most 128
  bool is_causal = false;                                        // query i sees keys 0..i
  double scale = 1;
  Rows q = {}, k = {}, v = {};
  Rows g = {};  // of y, where gradients are wanted
  // Without gaps, in the order entry, head, row.
  const void* y = nullptr;
  const void* log_sums = nullptr;  // f32, natural logarithms
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;

  /** All that a plan for it depends on: neither addresses nor the scale. */
  std::vector<std::int64_t> kind() const;
};

/** The same for attention. Its gradients hold those of the scores, 16 bits each: false for more
 *  bytes of them than most_score_gradients(). */
bool attend(const Attention& attention, Device device, runtime::Stream stream);

std::int64_t most_score_gradients();

/** Version of the library that was loaded, or why there is none. */
std::string description();

}  // namespace mezzo::gpu::dnn
