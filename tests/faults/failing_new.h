// fail_new(): makes the n-th operator new of this program throw std::bad_alloc.
// Sees: the standard library.
// Read next: failing_new.cpp, sweep.h (its user).
#pragma once

#include <cstdint>

namespace faults {

/** The n-th operator new from now, of any thread, throws (1 is the next); 0 calls that off. */
void fail_new(std::int64_t n);
/** Whether the failure that was asked for last has happened. */
bool has_failed();

}  // namespace faults
