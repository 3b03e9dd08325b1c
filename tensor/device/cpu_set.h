// CpuSet: the CPUs that a process may use, and how several processes share them. Needs nothing of
// Mezzo at link time.
#pragma once

#include <sched.h>

#include <algorithm>
#include <bitset>
#include <span>
#include <thread>

namespace mezzo {

/** The CPUs that a process may use, by their number. */
using CpuSet = std::bitset<CPU_SETSIZE>;

/** Returns the CPUs that this process may use: those of its affinity mask. */
inline CpuSet usable_cpus() {
  CpuSet cpus;
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof mask, &mask) == 0) {
    for (std::size_t i = 0; i < cpus.size(); ++i) cpus[i] = CPU_ISSET(i, &mask);
  } else {  // more CPUs than a mask holds
    const std::size_t count = std::max(1u, std::thread::hardware_concurrency());
    for (std::size_t i = 0; i < std::min(count, cpus.size()); ++i) cpus.set(i);
  }
  return cpus;
}

/** Returns the number of threads for one of several processes on a machine, whose CPUs are `cpus`:
 *  each CPU is divided evenly between the processes that may use it, and the sum rounded down, to
 * at least 1. So 8 CPUs are 4 threads each for two processes, also if each is bound to 4 of them.
 */
inline int thread_share(std::span<const CpuSet> cpus, std::size_t process) {
  double share = 1e-6;  // covers rounding, as of three thirds
  for (std::size_t i = 0; i < CpuSet().size(); ++i) {
    if (!cpus[process][i]) continue;
    share += 1.0 / static_cast<double>(std::count_if(cpus.begin(), cpus.end(),
                                                     [&](const CpuSet& set) { return set[i]; }));
  }
  return std::max(1, static_cast<int>(share));
}

}  // namespace mezzo
