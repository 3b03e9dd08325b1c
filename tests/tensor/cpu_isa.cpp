// The choice of the instruction set. tests/checks/isa_choice.py calls these cases with different
// values of MEZZO_CPU_ISA and on emulated CPUs.
#include <mezzo.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "../support/catch.h"
#include "../support/throws.h"

using namespace mezzo;

TEST_CASE("kernels use the instruction set that MEZZO_CPU_ISA names", "[cpu_isa]") {
  const char* named = std::getenv("MEZZO_CPU_ISA");
  if (named && *named) CHECK(str(cpu_isa()) == named);
  if (cpu_isa() != CpuIsa::baseline)
    CHECK(description(cpu).find(cpu_isa() == CpuIsa::v3 ? "x86-64-v3" : "x86-64-v4") == 5);
  CHECK(sum(ones({4}) + ones({4})).item<int>() == 8);
}

TEST_CASE("an exception of a kernel keeps its type, also from another thread", "[cpu_isa]") {
  const Tensor table = ones({4, 2}), index = full({3}, 7, {.dtype = i64});
  std::atomic<int> caught = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      try {
        index_select(table, 0, index);
      } catch (const IndexError&) {
        ++caught;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(caught == 4);
  CHECK_THROWS_AS(index_select(table, 0, index), Error);
}

TEST_CASE("each call of a kernel throws while MEZZO_CPU_ISA is unknown", "[.unknown_isa]") {
  for (int i = 0; i < 2; ++i) {
    CHECK_THROWS_WITH_AS_TEXT(cpu_isa(), ValueError,
                              "got \"" + std::string(std::getenv("MEZZO_CPU_ISA")));
    CHECK_THROWS_WITH_AS_TEXT(exp(ones({4})), ValueError, "MEZZO_CPU_ISA: unknown instruction set");
  }
  CHECK_THROWS_AS(description(cpu), ValueError);
}

TEST_CASE("each call of a kernel throws on a CPU below x86-64-v3", "[.below_v3]") {
  for (int i = 0; i < 2; ++i) {
    CHECK_THROWS_WITH_AS_TEXT(exp(ones({4})), Unsupported, "expected x86-64-v3");
    CHECK_THROWS_WITH_AS_TEXT(cpu_isa(), Unsupported, "expected x86-64-v3");
  }
}
