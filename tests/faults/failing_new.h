// fail_new(): makes the n-th operator new of this program throw std::bad_alloc.
#pragma once

#include <cstdint>

namespace faults {

/** Makes the n-th next operator new of any thread throw (1 is the next); 0 cancels that. */
void fail_new(std::int64_t n);
/** Returns whether the last requested failure has happened. */
bool has_failed();

}  // namespace faults
