#include "generator.h"

#include "philox.h"

namespace mezzo {

Generator& default_generator() {
  thread_local Generator generator;
  return generator;
}

void manual_seed(std::uint64_t seed) { default_generator() = {seed, 0}; }

Generator split(std::uint64_t seed, std::uint64_t stream) {
  const PhiloxBlock block = philox_block({seed, ~std::uint64_t{0}}, stream);
  return {static_cast<std::uint64_t>(block.word[1]) << 32 | block.word[0], 0};
}

}  // namespace mezzo
