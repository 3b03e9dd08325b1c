// The choice of the instruction set. tests/checks/isa_choice.py calls these cases with different
// values of MEZZO_CPU_ISA and on emulated CPUs.
#include <mezzo.h>

#include <signal.h>

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

TEST_CASE("AMX is not used while a signal stack refuses the permission", "[.small_signal_stack]") {
  static char memory[4096];
  const stack_t small{.ss_sp = memory, .ss_flags = 0, .ss_size = sizeof memory};
  REQUIRE(sigaltstack(&small, nullptr) == 0);
  const char* named = std::getenv("MEZZO_CPU_ISA");
  if (named && *named) {
    for (int i = 0; i < 2; ++i)
      CHECK_THROWS_WITH_AS_TEXT(cpu_isa(), ValueError,
                                "MEZZO_CPU_ISA: AMX cannot be used: the kernel refuses the "
                                "permission");
    return;
  }
  std::vector<std::string> lines;
  const LogSink before = set_log_sink([&](Severity severity, std::string_view line) {
    if (severity == Severity::warning) lines.emplace_back(line);
  });
  const Tensor a = ones({64, 64}, {.dtype = bf16});
  CHECK(all(mm(a, a) == 64).item<bool>());
  CHECK(cpu_isa() < CpuIsa::v4_amx);
  set_log_sink(before);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find("AMX is not used: the kernel refuses the permission") != std::string::npos);
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
