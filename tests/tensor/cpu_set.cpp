// How many threads each of several processes gets.
#include "../../tensor/device/cpu_set.h"

#include <vector>

#include "../support/catch.h"

using namespace mezzo;

namespace {

/** Returns CPUs first..last. */
CpuSet cpus(std::size_t first, std::size_t last) {
  CpuSet out;
  for (std::size_t i = first; i <= last; ++i) out.set(i);
  return out;
}

std::vector<int> shares(const std::vector<CpuSet>& processes) {
  std::vector<int> out;
  for (std::size_t i = 0; i < processes.size(); ++i) out.push_back(thread_share(processes, i));
  return out;
}

}  // namespace

TEST_CASE("processes divide the CPUs that they share", "[threads]") {
  CHECK(shares({cpus(0, 7)}) == std::vector{8});
  CHECK(shares({cpus(0, 7), cpus(0, 7)}) == std::vector{4, 4});
  CHECK(shares({cpus(0, 7), cpus(0, 7), cpus(0, 7)}) == std::vector{2, 2, 2});
  for (std::size_t count = 1; count <= 64; ++count)  // sums of count times 1 / count
    CHECK(shares(std::vector(count, cpus(0, count - 1))) == std::vector(count, 1));
  CHECK(shares({cpus(0, 1), cpus(0, 1), cpus(0, 1)}) == std::vector{1, 1, 1});
}

TEST_CASE("processes that a launcher binds keep the CPUs that they have alone", "[threads]") {
  CHECK(shares({cpus(0, 3), cpus(4, 7)}) == std::vector{4, 4});
  CHECK(shares({cpus(0, 7), cpus(8, 15), cpus(0, 7), cpus(8, 15)}) == std::vector{4, 4, 4, 4});
  CHECK(shares({cpus(0, 0), cpus(1, 1)}) == std::vector{1, 1});
  CHECK(shares({cpus(0, 3), cpus(0, 11)}) == std::vector{2, 10});
  CHECK(shares({cpus(1020, 1023), cpus(0, 0)}) == std::vector{4, 1});
}

TEST_CASE("this process may use a CPU", "[threads]") { CHECK(usable_cpus().any()); }
