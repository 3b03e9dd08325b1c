// The size of the CPU's caches.
#pragma once

#include <string>

#include "../tensor/core/macros.h"

namespace mezzo {

/** Returns how many bytes the caches of level 2 and above of all CPUs hold together, as Linux lists
 *  them below `cpus`; a cache that CPUs share counts once. Returns 0 if nothing is listed there. */
MZ_API double cache_bytes_of_cpus(const std::string& cpus = "/sys/devices/system/cpu");

}  // namespace mezzo
