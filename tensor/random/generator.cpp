#include "generator.h"

#include <string>

#include "../core/error.h"
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

namespace {
void require_no_capture(const char* op) {
  if (Capture::current())
    fail<StateError>(op, {.what = "a generator was seeded while a step is being captured",
                          .hint = "seed it before the step"});
}
}  // namespace

void manual_seed(std::uint64_t seed) {
  require_no_capture("manual_seed");
  default_generator() = {seed, 0};
}

Generator split(std::uint64_t seed, std::uint64_t stream) {
  const PhiloxBlock block = philox_block({seed, ~std::uint64_t{0}}, stream);
  return {static_cast<std::uint64_t>(block.word[1]) << 32 | block.word[0], 0};
}

void use_own_random_stream(Generator& generator, int rank) {
  constexpr const char* kOp = "use_own_random_stream";
  require_no_capture(kOp);
  if (rank < 0)
    fail<ValueError>(kOp, {.what = "the rank is negative", .got = std::to_string(rank)});
  // data::Batches takes the streams below 2^32 for its epochs.
  generator = split(generator.seed, (std::uint64_t{1} << 32) + static_cast<std::uint64_t>(rank));
}

}  // namespace mezzo
