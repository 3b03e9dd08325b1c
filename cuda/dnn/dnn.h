// Convolution and attention by cuDNN: a struct and a call each.
#pragma once

#include <string>
#include <vector>

#include "../../tensor/ops/conv_geometry.h"
#include "../runtime/runtime.h"

namespace mezzo::gpu::dnn {

/** y = x convolved with w, plus a bias; or one of the gradients, with the same three arrays. Arrays
 *  are dense and of one floating dtype. Accumulates in f32 (f64 for f64) and rounds once. */
struct Convolution {
  enum class Wanted : std::uint8_t { y, x, weight };
  Wanted wanted = Wanted::y;
  int dims = 2;  // spatial dimensions in use; the others have size 1
  MemoryFormat format = MemoryFormat::contiguous;  // of x, y and the weight
  op::Volume x = {}, y = {};                       // the geometry's input and output
  op::ConvGeometry geometry = {};
  const void* weight = nullptr;  // (y's channels, x's channels / groups, taps)
  const void* bias = nullptr;    // for wanted == y: one element per channel of y, same dtype
};

/** Enqueues the convolution. Returns false if cuDNN is missing or has no working engine for it.
 *  Uses only deterministic engines unless allow_nondeterministic(), and no Tensor Cores for f32
 *  unless allow_tf32(). Errors: CudaError where the device is broken; CapturePostponed where a call
 *  fails within a capture. */
bool convolve(const Convolution& convolution, Device device, runtime::Stream stream);

/** y = softmax(scale q k^T) v for each head of each batch entry, with the logarithm of each row's
 *  sum of exponentials; or, with both given, the gradients of q, k and v. f16 or bf16. Accumulates
 *  in f32; probabilities, and the gradients of the scores, are rounded to the dtype. */
struct Attention {
  /** Matrices by entry and head, with contiguous rows that begin at multiples of 16 bytes. */
  struct Rows {
    const void* data = nullptr;
    std::int64_t entry = 0, head = 0, row = 0;  // strides in elements
  };
  enum class Wanted : std::uint8_t { y, gradients };
  Wanted wanted = Wanted::y;
  DType dtype = DType::f16;
  std::int64_t entries = 1, heads = 1;
  std::int64_t key_heads = 1;  // heads of k and v, each shared by neighbouring heads of q; equal to
                               // `heads` for gradients
  std::int64_t queries = 1, keys = 1;
  std::int64_t features = 8, values = 8;  // multiples of 8, at most 128
  bool is_causal = false;                 // query i attends to keys 0..i
  double scale = 1;
  Rows q = {}, k = {}, v = {};
  Rows g = {};  // gradient of y, for wanted == gradients
  Rows y = {};
  Rows dq = {}, dk = {}, dv = {};  // results for wanted == gradients
  const void* log_sums = nullptr;  // f32, natural logarithms, dense in the order entry, head, row

  /** Returns everything that a plan depends on: neither addresses nor the scale. */
  std::vector<std::int64_t> kind() const;
};

/** Enqueues the attention, as convolve() does. Gradients keep the gradients of the scores in
 *  memory, 16 bits each: returns false if these need more than most_score_gradients() bytes. */
bool attend(const Attention& attention, Device device, runtime::Stream stream);

/** Returns the limit for the gradients of the scores, in bytes. */
std::int64_t most_score_gradients();

/** Returns the version of the loaded library, or the reason why it is missing. */
std::string description();

}  // namespace mezzo::gpu::dnn
