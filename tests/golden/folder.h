// Where the golden files are.
// Sees: ../support/test_data.h.
// Read next: golden.cpp.
#pragma once

#include "../support/test_data.h"

namespace golden {

/** This folder, by its absolute path; defined in a file that the build writes. */
extern const char* const kFolder;

inline std::string folder() { return mezzo::testing::test_data(kFolder, "golden"); }

}  // namespace golden
