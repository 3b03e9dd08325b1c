#include "stack_space.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#ifdef __linux__
#  include <pthread.h>
#endif

namespace mezzo {

namespace {

/** The bounds of a thread's stack, and the bytes at its end that are reserved; empty if unknown. */
struct StackRange {
  std::uintptr_t begin = 0, end = 0, reserve = 0;
};

StackRange range_of_this_thread() {
  StackRange range;
#ifdef __linux__
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return range;
  void* low = nullptr;
  std::size_t size = 0;
  if (pthread_attr_getstack(&attributes, &low, &size) == 0) {
    // Enough for the deepest kernel and for throwing.
    constexpr std::uintptr_t kReserve = 256 << 10;
    range.begin = reinterpret_cast<std::uintptr_t>(low);
    range.end = range.begin + size;
    range.reserve = std::min<std::uintptr_t>(kReserve, size / 4);
  }
  pthread_attr_destroy(&attributes);
#endif
  return range;
}

}  // namespace

bool stack_has_room() {
  static thread_local const StackRange range = range_of_this_thread();
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  // A coroutine runs on its own stack, whose bounds are unknown.
  return here < range.begin || here >= range.end || here - range.begin > range.reserve;
}

}  // namespace mezzo
