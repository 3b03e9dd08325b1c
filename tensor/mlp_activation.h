// MlpActivation: what follows the layers of an mlp.
// Sees: nothing.
// Read next: ops/linear_chain.h, ../autograd/ops/matmul.h (mlp).
#pragma once

#include <cstdint>

namespace mezzo {

enum class MlpActivation : std::uint8_t { none, relu, sigmoid };

}  // namespace mezzo
