// The main program of every test binary: runs Catch2 and prints the tally that tally.py adds up.
#define CATCH_CONFIG_RUNNER
#include "catch.h"

#include <cstdio>

#if defined(MZ_CATCH3)
using ListenerBase = Catch::EventListenerBase;
#else
using ListenerBase = Catch::TestEventListenerBase;
#endif

namespace {

Catch::Counts g_test_cases;  // of the finished run; zero after a crash

struct Tally : ListenerBase {
  using ListenerBase::ListenerBase;

  void testRunEnded(const Catch::TestRunStats& stats) override {
    g_test_cases = stats.totals.testCases;
  }
};

}  // namespace

CATCH_REGISTER_LISTENER(Tally)

int main(int argc, char** argv) {
  const int status = Catch::Session().run(argc, argv);
  const int skipped = mezzo::testing::skipped_cases;
  if (status == 0 && skipped > 0 && static_cast<std::size_t>(skipped) == g_test_cases.passed)
    return 77;
  // Printed here and not in the listener, where it would end up inside an XML report.
  std::fprintf(stderr, "%zu passed, %zu failed\n", static_cast<std::size_t>(g_test_cases.passed),
               static_cast<std::size_t>(g_test_cases.failed));
  return status;
}
