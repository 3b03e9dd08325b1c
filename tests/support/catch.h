// Catch2, version 2 or 3, under one name; every test includes this and never Catch2 itself.
// Sees: Catch2.
// Read next: main.cpp, which runs the tests and prints the tally.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#  include <catch2/catch_all.hpp>
#  define MZ_CATCH3 1
using Catch::Approx;
#else
#  include <catch2/catch.hpp>
#endif

namespace mezzo::testing {
/** Test cases that were left so far. */
inline int skipped_cases = 0;
}  // namespace mezzo::testing

/** Leaves the test case, saying why it cannot run here. It counts as passed, since version 2 knows no third outcome; but a program all of whose
 *  cases were left ends with status 77, which means skipped. */
#define SKIP_TEST(reason)            \
  do {                               \
    WARN(reason);                    \
    ++mezzo::testing::skipped_cases; \
    return;                          \
  } while (false)
