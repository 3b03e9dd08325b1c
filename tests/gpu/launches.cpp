// How many kernels a captured training step runs, library calls included. Launch-bound nets gain from fewer of them and from nothing else.
#include <mezzo.h>

#include <initializer_list>
#include <iostream>

#include "../../samples/nets/lenet.h"
#include "../../samples/nets/mlp.h"
#include "../support/catch.h"
#include "training.h"

using namespace captured;

namespace {

/** Launches of one captured step of a net at a level, Adam, dynamic scaling where the level has it. */
template <class AnyNet> std::int64_t launches_of(const std::string& level) {
  manual_seed(1);
  AnyNet net;
  net.to(kDevice);
  optim::FusedAdam optimizer(net.parameters(), {.lr = 1e-3});
  const auto session = amp::initialize(net, optimizer, {.opt_level = level, .verbosity = 0});
  gpu::CapturedStep step(deferred_step(net, optimizer), {kDevice});
  const std::vector<Tensor> in{rand({4, 1, 28, 28}).to(kDevice),
                               zeros({4}, {.dtype = i64, .device = kDevice})};
  for (int i = 0; i < 12; ++i) step(in);  // overflows at first may put off the capture
  const emulator::LaunchLog log;
  const emulator::Counters cost = cost_of([&] { step(in); });
  std::cout << "a captured step at " << level << ":";
  for (const std::string& name : log.names) std::cout << " " << name;
  std::cout << "\n";
  CHECK(cost.allocations == 0);
  CHECK(cost.synchronisations == 0);
  return cost.launches - static_cast<std::int64_t>(in.size());  // without the copies into the input's slots
}

struct Budget {
  const char* level;
  std::int64_t launches;
};

template <class AnyNet> void check_budgets(const char* net, std::initializer_list<Budget> budgets) {
  for (const Budget& budget : budgets) {
    const std::int64_t launches = launches_of<AnyNet>(budget.level);
    std::cout << "launches of a captured " << net << " step at " << budget.level << ": " << launches << "\n";
    INFO(budget.level);
    CHECK(launches <= budget.launches);
  }
}

}  // namespace

TEST_CASE("a captured step of the MLP is few launches", "[gpu][graph][counters]") {
  check_budgets<samples::Mlp>("MLP", {{"O0", 12}, {"O1", 23}, {"O2", 16}, {"O5", 15}});
}

TEST_CASE("a captured step of LeNet is few launches", "[gpu][graph][counters]") {
  check_budgets<samples::LeNet>("LeNet", {{"O0", 23}, {"O1", 34}, {"O2", 27}, {"O5", 26}});
}
