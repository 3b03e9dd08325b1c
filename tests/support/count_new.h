// count_new(): how often a program calls operator new. It replaces operator new: include it in one
// file of a program.
#pragma once

#include <atomic>
#include <cstdlib>
#include <new>

namespace count_new_internal {
inline std::atomic<long> calls{0};
}

/** Returns the calls of operator new so far, in all threads. */
inline long count_new() { return count_new_internal::calls; }

void* operator new(std::size_t bytes) {
  ++count_new_internal::calls;
  if (void* const memory = std::malloc(bytes ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
