// The thread pool: every panel runs once, chunks do not depend on the number of threads,
// exceptions, nesting, inherited float mode.
#include "../../tensor/device/parallel.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cfenv>
#include <cmath>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "../../tensor/core/error.h"
#include "../../tensor/memory/address_sanitizer.h"
#include "../../tensor/text/log.h"
#include "../support/catch.h"
#include "thread_sanitizer.h"

using namespace mezzo;

namespace {

/** Sets the number of threads until the end of the scope. */
class Threads {
 public:
  explicit Threads(int count) : old_(num_threads()) { set_num_threads(count); }
  ~Threads() { set_num_threads(old_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int old_;
};

}  // namespace

TEST_CASE("every panel runs exactly once", "[parallel]") {
  for (const int threads : {1, 2, 3, 8}) {
    const Threads scope(threads);
    CHECK(num_threads() == threads);
    for (const std::int64_t panels : {0, 1, 2, 3, 7, 8, 9, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<std::size_t>(panels));
      parallel_for(panels, [&](std::int64_t panel) { ++runs[static_cast<std::size_t>(panel)]; });
      int wrong = 0;
      for (const auto& count : runs) wrong += count != 1;
      CAPTURE(threads, panels);
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("panels are assigned in contiguous ranges, the first to the caller", "[parallel]") {
  const Threads scope(4);
  std::vector<std::thread::id> runner(10);
  parallel_for(10, [&](std::int64_t panel) {
    runner[static_cast<std::size_t>(panel)] = std::this_thread::get_id();
  });
  CHECK(runner[0] == std::this_thread::get_id());
  CHECK(std::set(runner.begin(), runner.end()).size() == 4);
  int changes = 0;
  for (std::size_t i = 1; i < runner.size(); ++i) changes += runner[i] != runner[i - 1];
  CHECK(changes == 3);
}

TEST_CASE("the split into chunks depends only on the size", "[parallel]") {
  for (const std::int64_t n : {0, 1, 99, 100, 101, 100000}) {
    std::vector<std::pair<std::int64_t, std::int64_t>> one_thread, many;
    for (auto* cut : {&one_thread, &many}) {
      const Threads scope(cut == &many ? 5 : 1);
      cut->resize(static_cast<std::size_t>((n + 99) / 100));
      parallel_chunks(
          n, 100,
          [&](std::int64_t begin, std::int64_t end) {
            (*cut)[static_cast<std::size_t>(begin / 100)] = {begin, end};
          },
          1e6);
    }
    CHECK(one_thread == many);
    CHECK((n == 0 || one_thread.back().second == n));
    for (std::size_t i = 1; i < many.size(); ++i) CHECK(many[i].first == many[i - 1].second);
  }
}

TEST_CASE("cheap work stays on the calling thread", "[parallel]") {
  const Threads scope(4);
  std::set<std::thread::id> runners;
  parallel_for(
      100, [&](std::int64_t) { runners.insert(std::this_thread::get_id()); }, kParallelWorthNs - 1);
  parallel_chunks(
      1000, 10, [&](std::int64_t, std::int64_t) { runners.insert(std::this_thread::get_id()); },
      1.0);
  CHECK(runners == std::set{std::this_thread::get_id()});
}

TEST_CASE("the exception of the lowest panel is rethrown", "[parallel]") {
  for (const int threads : {1, 2, 4, 8}) {
    const Threads scope(threads);
    for (int round = 0; round < 20; ++round) {
      std::string text;
      try {
        parallel_for(64, [&](std::int64_t panel) {
          if (panel % 10 == 7) throw std::runtime_error(std::to_string(panel));
        });
      } catch (const std::runtime_error& error) {
        text = error.what();
      }
      CHECK(text == "7");
    }
    int runs = 0;
    parallel_for(1, [&](std::int64_t) { ++runs; });  // still usable
    CHECK(runs == 1);
  }
}

TEST_CASE("regions inside a region run inline", "[parallel]") {
  const Threads scope(4);
  std::atomic<int> sum = 0, strays = 0;
  parallel_for(8, [&](std::int64_t) {
    const auto outer = std::this_thread::get_id();
    parallel_for(8, [&](std::int64_t) {
      strays += std::this_thread::get_id() != outer;
      ++sum;
    });
  });
  CHECK(sum == 64);
  CHECK(strays == 0);
}

TEST_CASE("regions started from several threads at once all finish", "[parallel]") {
  const Threads scope(3);
  std::atomic<std::int64_t> sum = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round)
        parallel_for(5, [&](std::int64_t panel) { sum += panel; });
    });
  }
  for (auto& caller : callers) caller.join();
  CHECK(sum == 4 * 200 * 10);
}

TEST_CASE("many short regions with pauses wake every thread", "[parallel]") {
  const Threads scope(4);
  std::int64_t total = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<std::int64_t> part(4);
    parallel_for(4, [&](std::int64_t panel) { part[static_cast<std::size_t>(panel)] = panel + 1; });
    for (const auto value : part) total += value;
    if (round % 50 == 0)
      std::this_thread::sleep_for(
          std::chrono::milliseconds(1));  // long enough for the workers to park
    if (round % 100 == 99) set_num_threads(round % 200 == 99 ? 2 : 4);
  }
  CHECK(total == 300 * 10);
}

TEST_CASE("workers compute in the caller's rounding mode", "[parallel]") {
  const Threads scope(4);
  const auto thirds = [] {
    std::vector<double> result(4);
    parallel_for(4, [&](std::int64_t panel) {
      volatile double one = 1.0, three = 3.0;
      result[static_cast<std::size_t>(panel)] = one / three;
    });
    return result;
  };
  const auto nearest = thirds();
  REQUIRE(std::fesetround(FE_UPWARD) == 0);
  const auto upward = thirds();
  std::fesetround(FE_TONEAREST);
  const auto again = thirds();
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(upward[i] == std::nextafter(nearest[i], 1.0));
    CHECK(again[i] == nearest[i]);
  }
}

TEST_CASE("an invalid number of threads is rejected", "[parallel]") {
  const int before = num_threads();
  for (const int count : {0, -1, 1025}) CHECK_THROWS_AS(set_num_threads(count), ValueError);
  CHECK(num_threads() == before);
  CHECK_THROWS_WITH(set_num_threads(0),
                    "set_num_threads: count is out of range; got 0, expected 1..1024");
}

TEST_CASE("a forked child has its own threads", "[parallel]") {
#if MZ_THREAD_SANITIZER
  SKIP_TEST("ThreadSanitizer does not allow threads in a forked child");
#endif
  const Threads scope(3);
  std::atomic<int> sum = 0;
  parallel_for(6, [&](std::int64_t) { ++sum; });
  const pid_t child = fork();
  if (child == 0) {
    sum = 0;
    parallel_for(6, [&](std::int64_t) { ++sum; });
    _exit(sum == 6 ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

#if !defined(MZ_ADDRESS_SANITIZER) && !defined(MZ_THREAD_SANITIZER)  // they need the address space
namespace {

/** Runs two regions in a process without memory for more thread stacks than other tests left.
 *  Returns the number of warnings. */
int lines_without_threads() {
  int lines = 0;
  std::atomic<int> runs = 0;
  set_log_sink([&](Severity severity, std::string_view line) {
    lines += severity == Severity::warning && line.find("expected 500") != std::string_view::npos;
  });
  const rlimit none{1, 1};
  setrlimit(RLIMIT_AS, &none);
  set_num_threads(500);
  for (int region = 0; region < 2; ++region) parallel_for(10, [&](std::int64_t) { ++runs; });
  return runs == 20 ? lines : -1;
}

}  // namespace

TEST_CASE("where threads cannot be started the work is done with fewer, and this is logged once",
          "[parallel]") {
  const pid_t child = fork();
  if (child == 0) _exit(lines_without_threads());
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 1);
}
#endif
