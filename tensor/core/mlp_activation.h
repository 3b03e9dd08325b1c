// MlpActivation: the activation after each layer of an mlp.
#pragma once

#include <cstdint>

namespace mezzo {

/** The activation after each layer of an mlp. gelu_tanh is the tanh approximation of gelu. */
enum class MlpActivation : std::uint8_t { none, relu, sigmoid, gelu, gelu_tanh };

/** Returns true for both forms of gelu. */
constexpr bool is_gelu(MlpActivation activation) {
  return activation == MlpActivation::gelu || activation == MlpActivation::gelu_tanh;
}

}  // namespace mezzo
