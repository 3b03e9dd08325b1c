// Reduction: what a loss makes of its terms.
// Sees: the standard library only.
// Read next: ../autograd/ops/loss.h.
#pragma once

#include <cstdint>

namespace mezzo {

/** One number per term, their sum, their mean, or (kl_div alone) their sum divided by the size of dimension 0. */
enum class Reduction : std::uint8_t { none, sum, mean, batchmean };

}  // namespace mezzo
