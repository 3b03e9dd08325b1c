// The folder of the golden files.
#pragma once

#include "../support/test_data.h"

namespace golden {

/** This folder's absolute path; defined in a file that the build writes. */
extern const char* const kFolder;

inline std::string folder() { return mezzo::testing::test_data(kFolder, "golden"); }

}  // namespace golden
