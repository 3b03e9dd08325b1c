// test_data(): the path of the files that tests compare with.
// See also: ../gpu.sh (sets MEZZO_TESTS).
#pragma once

#include <cstdlib>
#include <string>

namespace mezzo::testing {

/** Returns the path of a file or folder in tests/. This is `place` below the folder that the
 *  environment variable MEZZO_TESTS names (set where a build was copied to another machine), else
 *  `built`, the path in the source tree. */
inline std::string test_data(const char* built, const char* place) {
  const char* tests = std::getenv("MEZZO_TESTS");
  return tests ? std::string(tests) + "/" + place : built;
}

}  // namespace mezzo::testing
