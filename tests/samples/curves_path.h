// The path of the stored loss curves.
#pragma once

/** The file's absolute path; defined in a file that the build writes. */
extern const char* const kCurvesPath;
