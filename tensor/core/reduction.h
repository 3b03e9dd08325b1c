// Reduction: how a loss combines its terms.
#pragma once

#include <cstdint>

namespace mezzo {

/** How a loss combines its terms: one result per term, their sum, their mean, or (kl_div only)
 *  their sum divided by the size of dimension 0. */
enum class Reduction : std::uint8_t { none, sum, mean, batchmean };

}  // namespace mezzo
