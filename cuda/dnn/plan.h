// Plans for convolutions and attention: their graphs of cuDNN operations and the engine for each.
#pragma once

#include <optional>

#include "dnn.h"
#include "graph.h"

namespace mezzo::gpu::dnn {

/** Ids of the arrays of a plan. */
enum ArrayName : std::int64_t {
  kX = 'x',
  kWeight = 'w',
  kY = 'y',
  kBias = 'b',
  // Attention.
  kQ = 'q',
  kK = 'k',
  kV = 'v',
  kLogSums = 'l',
  kScoreBias = 'B',  // a.bias
  kKept = 'p',       // a.kept
  kG = 'g',
  kOffsets = 'o',  // intermediate of the gradients: one f32 per row
  kDqSums = 'S',   // of gradients that need not repeat: sums for q, f32, set to 0 before
  kDq = 'Q',
  kDk = 'K',
  kDv = 'V',
  // On the host, f32.
  kScale = 's',
  kMasked = 'm',        // the score of a masked key
  kOffsetFactor = '1',  // 1; the pattern of the fused engines has it
  kKeepFactor = 'f',    // 1 / the probability that dropout keeps an element
  kFirstFree = 1000,    // first id of intermediate arrays
};

/** Returns true if the size of y that the library computes is the actual one. It is not where y
 *  leaves out positions. */
bool sizes_follow(const op::ConvGeometry& geometry);

/** Returns a plan with the first engine, in the order of choose_engine() and from index `first` on,
 *  that the settings of numerics.h allow (precision and determinism), or nothing if there is
 *  none. */
std::optional<Plan> plan(const Convolution& convolution, const Target& target, int first = 0);

/** The same for attention. Gradients need memory for the gradients of the scores and a little
 *  more. */
inline constexpr std::int64_t kMostScoreBytes = std::int64_t{256} << 20,
                              kMostAttentionWorkspace = kMostScoreBytes + (1 << 20);
std::optional<Plan> plan(const Attention& attention, const Target& target, int first = 0);

}  // namespace mezzo::gpu::dnn
