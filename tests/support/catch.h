// Includes Catch2, version 2 or 3. Every test includes this file and never Catch2 itself.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#  include <catch2/catch_all.hpp>
#  define MZ_CATCH3 1
using Catch::Approx;
#else
#  include <catch2/catch.hpp>
#endif

namespace mezzo::testing {
/** Number of test cases that SKIP_TEST left so far. */
inline int skipped_cases = 0;
}  // namespace mezzo::testing

/** Leaves the test case with a warning that gives the reason. Catch2 version 2 has no result
 *  "skipped", so the case counts as passed. A program whose cases were all skipped exits with
 *  status 77, which means skipped. */
#define SKIP_TEST(reason)            \
  do {                               \
    WARN(reason);                    \
    ++mezzo::testing::skipped_cases; \
    return;                          \
  } while (false)
