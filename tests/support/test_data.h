// test_data(): where the files are that tests compare with.
// Sees: the standard library.
// Read next: ../gpu.sh (which sets MEZZO_TESTS), ../golden/folder.h, ../samples/curves_path.h.
#pragma once

#include <cstdlib>
#include <string>

namespace mezzo::testing {

/** A place in tests/: in the tree that the build was made from, `built`, or for a build that was carried elsewhere below the folder that the
 *  environment's MEZZO_TESTS names. */
inline std::string test_data(const char* built, const char* place) {
  const char* tests = std::getenv("MEZZO_TESTS");
  return tests ? std::string(tests) + "/" + place : built;
}

}  // namespace mezzo::testing
