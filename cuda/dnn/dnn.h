// Convolution and attention by cuDNN: a struct and a call each.
#pragma once

#include <string>
#include <vector>

#include "../../tensor/ops/conv/conv_geometry.h"
#include "../library_proof.h"
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

/** Enqueues the convolution. Returns false if cuDNN is missing, has no working engine for it, or
 *  has results other than `pairs` contains of Mezzo's own. Uses only deterministic engines unless
 *  allow_nondeterministic(), and no Tensor Cores for f32 unless allow_tf32(). Errors: CudaError
 *  where the device is broken; CapturePostponed where a call fails within a capture. */
bool convolve(const Convolution& convolution, Device device, runtime::Stream stream,
              const ResultPairs& pairs);

/** y = dropout(softmax(scale q k^T + bias)) v for each head of each batch entry, with the logarithm
 *  of each row's sum of exponentials; or, with both given, the gradients of q, k and v. f16 or
 *  bf16. Accumulates in f32; probabilities, after dropout, and the gradients of the scores are
 *  rounded to the dtype. */
struct Attention {
  /** Matrices by entry and head, with contiguous rows that begin at multiples of 16 bytes. */
  struct Rows {
    const void* data = nullptr;
    std::int64_t entry = 0, head = 0, row = 0;  // strides in elements
  };
  /** A number for each query and key of each head, f32, not -inf. Rows begin pitch() elements apart
   *  and are dense in the order entry, head, row; a size of 1 is broadcast, but not over queries
   *  for gradients. */
  struct Bias {
    const void* data = nullptr;
    std::int64_t entries = 0, heads = 0, queries = 0;  // 0: there is no bias
    bool exists() const { return entries > 0; }
  };
  enum class Wanted : std::uint8_t { y, gradients };
  Wanted wanted = Wanted::y;
  DType dtype = DType::f16;
  std::int64_t entries = 1, heads = 1;
  std::int64_t key_heads = 1;  // heads of k and v, each shared by neighbouring heads of q; equal to
                               // `heads` for gradients
  bool repeats = true;         // the gradients have the same bits in every run
  std::int64_t queries = 1, keys = 1;
  std::int64_t features = 8, values = 8;  // multiples of 8, at most 128
  bool is_causal = false;                 // query i attends to keys 0..i
  bool drops = false;                     // dropout
  double keep_probability = 1;            // of dropout; not 0
  double scale = 1;
  Rows q = {}, k = {}, v = {};
  Bias bias = {};
  // For dropout: 1 where a probability is kept, else 0, of the dtype, with the rows of a bias.
  const void* kept = nullptr;
  Rows g = {};  // gradient of y, for wanted == gradients
  Rows y = {};
  Rows dq = {}, dk = {}, dv = {};  // results for wanted == gradients
  const void* log_sums = nullptr;  // f32, natural logarithms, dense in the order entry, head, row

  /** Returns the distance between rows of the bias and of `kept`, in elements: a multiple of 16
   *  bytes. */
  std::int64_t pitch() const { return (keys + 7) / 8 * 8; }
  std::int64_t bias_bytes() const {
    return bias.entries * bias.heads * bias.queries * pitch() * std::int64_t{sizeof(float)};
  }
  /** Returns everything that a plan depends on: neither addresses nor the factors. */
  std::vector<std::int64_t> kind() const;
  /** Describes the call, for the log. */
  std::string text() const;
};

/** Enqueues the attention, as convolve() does, without a comparison. Gradients that repeat keep the
 *  gradients of the scores in memory, 16 bits each: returns false if these need more than
 *  most_score_bytes() bytes. */
bool attend(const Attention& attention, Device device, runtime::Stream stream);

/** Returns the limit in bytes for each array of scores in memory: their gradients, their bias, and
 *  the mask of dropout. */
std::int64_t most_score_bytes();

/** Returns the version of the loaded library, or the reason why it is missing. */
std::string description();

}  // namespace mezzo::gpu::dnn
