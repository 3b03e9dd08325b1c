// Plans for convolutions and attention: what they are as graphs of cuDNN's operations, and the engine for each.
// Sees: dnn.h, dnn_graph.h.
// Read next: dnn_plan.cpp, dnn_attention_plan.cpp, dnn.cpp (who keeps plans).
#pragma once

#include <optional>

#include "dnn.h"
#include "dnn_graph.h"

namespace mezzo::gpu::dnn {

/** The arrays of plans by name. */
enum ArrayName : std::int64_t {
  kX = 'x',
  kWeight = 'w',
  kY = 'y',
  kBias = 'b',
  // Of attention.
  kQ = 'q',
  kK = 'k',
  kV = 'v',
  kLogSums = 'l',
  kG = 'g',
  kOffsets = 'o',  // written and read on the way to gradients: a number in f32 for each row
  kDq = 'Q',
  kDk = 'K',
  kDv = 'V',
  // On the host, in f32.
  kScale = 's',
  kMasked = 'm',  // the score of a key that is not to be seen
  kOne = '1',
  kFirstFree = 1000,  // for what lies between operations
};

/** Whether the library, which computes the size of y from the rest, comes to the size y has: not
 *  where y leaves out positions. */
bool sizes_follow(const op::ConvGeometry& geometry);

/** The first engine of the library's own order, from the one at index `first` on, that the
 *  process's switches allow (numerics.h): in precision, and whether it must give the same bits
 *  every time; none where it has none. */
std::optional<Plan> plan(const Convolution& convolution, const Target& target, int first = 0);

/** The same for attention. Its gradients need memory for those of the scores and a little more. */
inline constexpr std::int64_t kMostScoreGradients = std::int64_t{256} << 20,
                              kMostAttentionWorkspace = kMostScoreGradients + (1 << 20);
std::optional<Plan> plan(const Attention& attention, const Target& target, int first = 0);

}  // namespace mezzo::gpu::dnn
