// Where the golden files are.
// Sees: the standard library.
// Read next: golden.cpp.
#pragma once

namespace golden {

/** This folder, by its absolute path; defined in a file that the build writes. */
extern const char* const kFolder;

}  // namespace golden
