// MlpActivation: what follows the layers of an mlp.
// Sees: nothing.
// Read next: ops/linear_chain.h, ../autograd/ops/matmul.h (mlp).
#pragma once

#include <cstdint>

namespace mezzo {

/** gelu_tanh is gelu in its tanh form. */
enum class MlpActivation : std::uint8_t { none, relu, sigmoid, gelu, gelu_tanh };

constexpr bool is_gelu(MlpActivation activation) {
  return activation == MlpActivation::gelu || activation == MlpActivation::gelu_tanh;
}

}  // namespace mezzo
