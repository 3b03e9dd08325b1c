// Copies into shared memory that run while the thread goes on (cp.async), for a C++ compiler. They
// are made when the thread waits for them, the latest moment that a device may choose. Until then
// their places hold 0xFF bytes.
#pragma once

#include <array>

#include "cuda.h"

namespace mezzo::emulator {

/** The copies of a thread. See cuda/kernels/async_copy.h. */
class AsyncCopies {
 public:
  void set_places(void* to, const void* from) {
    to_ = static_cast<char*>(to);
    from_ = static_cast<const char*>(from);
  }
  template <int to_offset, int from_offset>
  void begin(gpu::CallPlace place = gpu::CallPlace::current()) {
    const Copy next{reinterpret_cast<Words*>(to_ + to_offset),
                    reinterpret_cast<const Words*>(from_ + from_offset), groups_};
    for (const void* at : {static_cast<const void*>(next.to), static_cast<const void*>(next.from)})
      if (reinterpret_cast<std::uintptr_t>(at) % sizeof(Words) != 0)
        forbid("a copy whose address is no multiple of 16 bytes", place);
    if (end_ - first_ == copies_.size()) forbid("more copies than the emulator keeps", place);
    *next.to = {~0ull, ~0ull};
    copies_[end_++ % copies_.size()] = next;
  }
  void end_group() { ++groups_; }
  template <int left> void wait() {
    for (; first_ < end_; ++first_) {
      const Copy& next = copies_[first_ % copies_.size()];
      if (next.group + left >= groups_) break;
      *next.to = *next.from;
    }
  }

 private:
  struct Words {
    std::uint64_t low, high;
  };
  struct Copy {
    Words* to;
    const Words* from;
    std::size_t group;
  };
  char* to_ = nullptr;
  const char* from_ = nullptr;
  std::array<Copy, 32> copies_;  // a ring
  std::size_t first_ = 0, end_ = 0, groups_ = 0;
};

}  // namespace mezzo::emulator
