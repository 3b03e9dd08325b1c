#include "generator.h"

#include "../device/capture.h"
#include "philox.h"

namespace mezzo {

Generator& default_generator() {
  thread_local Generator generator;
  return generator;
}

PhiloxStream Generator::next_stream(Device device) {
  Capture* capture = Capture::current();
  return capture && device == capture->device() ? capture->next_stream(*this) : next_stream();
}

void manual_seed(std::uint64_t seed) {
  if (Capture::current())
    fail<StateError>("manual_seed",
                     {.what = "a generator was seeded while a step is being captured",
                      .hint = "seed it before the step"});
  default_generator() = {seed, 0};
}

Generator split(std::uint64_t seed, std::uint64_t stream) {
  const PhiloxBlock block = philox_block({seed, ~std::uint64_t{0}}, stream);
  return {static_cast<std::uint64_t>(block.word[1]) << 32 | block.word[0], 0};
}

}  // namespace mezzo
