// LeafLock: the lock of a leaf's gradient, for threads that go backward into the same leaf.
// See also: autograd/README.md (threads).
#pragma once

#include <mutex>

#include "node.h"

namespace mezzo {

/** Recursive, because hooks that run after an accumulation may use the gradient and go backward
 *  again. */
struct LeafLock : std::recursive_mutex {};

/** Returns the held lock, or an empty one for a tensor that never required a gradient. */
inline std::unique_lock<std::recursive_mutex> locked(const GradState& state) {
  if (!state.lock) return {};
  return std::unique_lock<std::recursive_mutex>(*state.lock);
}

}  // namespace mezzo
