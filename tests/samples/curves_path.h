// Where the kept curves are.
// Sees: the standard library.
// Read next: curves.cpp.
#pragma once

/** The file's absolute path; defined in a file that the build writes. */
extern const char* const kCurvesPath;
