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

/** Leaves the test case, saying why it cannot run here. It counts as passed: version 2 knows no third outcome. */
#define SKIP_TEST(reason) \
  do {                    \
    WARN(reason);         \
    return;               \
  } while (false)
