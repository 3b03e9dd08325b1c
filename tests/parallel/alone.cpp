// DistributedDataParallel in a process that was started alone: the same bits, and nothing is
// loaded or allocated.
#include <fstream>
#include <iterator>

#include "../support/count_new.h"
#include "../support/levels.h"
#include "trainees.h"

using namespace trainees;

namespace {

std::string mapped_libraries() {
  std::ifstream maps("/proc/self/maps");
  return {std::istreambuf_iterator<char>(maps), {}};
}

/** What a training leaves and costs. */
struct Result {
  states::State state;
  std::vector<long> allocations;  // of each step
};

/** Trains with a scope of accumulation in each step; `wraps`: with DistributedDataParallel. */
Result train(const char* net, const char* level, bool wraps) {
  const Trainee trainee = make(net);
  const MadeOptimizer optimizer = make_optimizer("AdamW", trainee.module);
  auto session = amp::initialize(trainee.module, *optimizer, quiet(level));
  const Generator before = default_generator();
  std::optional<nn::DistributedDataParallel<nn::Module>> wrapper;
  if (wraps) wrapper.emplace(trainee.module);
  CHECK(default_generator() == before);
  Result result;
  for (std::uint64_t step = 0; step < 8; ++step) {
    const long start = count_new();
    optimizer->zero_grad();
    for (const bool is_last : {false, true}) {
      std::optional<nn::NoSync> local;
      if (wraps && !is_last) local.emplace(wrapper->no_sync());
      amp::scale_loss(trainee.loss(2 * step + is_last), *optimizer, {.delay_unscale = !is_last},
                      [](const Tensor& loss) { loss.backward(); });
    }
    (void)optimizer->step();
    result.allocations.push_back(count_new() - start);
  }
  add_state(result.state, trainee.module, *optimizer, session);
  return result;
}

}  // namespace

TEST_CASE("in a process alone a wrapper changes no bit, allocates and loads nothing") {
  const int threads = num_threads();
  set_num_threads(1);  // several allocate now and then
  for (const char* net : {"mlp", "lenet", "char_gpt"})
    for (const char* level : levels::names()) {
      INFO(net << ", " << level);
      (void)train(net, level, false);  // fills caches
      const Result plain = train(net, level, false), wrapped = train(net, level, true);
      CHECK(states::difference(plain.state, wrapped.state) == "");
      CHECK(wrapped.allocations == plain.allocations);
    }
  set_num_threads(threads);
  CHECK(mapped_libraries().find("libmpi") == std::string::npos);
  CHECK(mapped_libraries().find("mezzo-mpi") == std::string::npos);
}

TEST_CASE("in a process alone a wrapper allocates what a copy of the model's handle does") {
  const samples::Mlp model(8);
  const auto allocations_of = [](const auto& make_one) {
    const long before = count_new();
    make_one();
    return count_new() - before;
  };
  const auto copies = [&] { const samples::Mlp copy(model); };
  const auto wraps = [&] {
    nn::DistributedDataParallel<samples::Mlp> net(model);
    const auto local = net.no_sync();
    net.close();
  };
  CHECK(allocations_of(wraps) == allocations_of(copies));
}
