// LeafLock: the lock of a leaf's gradient. Threads that go backward into the leaf take turns.
// Sees: node.h.
// Read next: engine.cpp and tensor_methods.cpp (who lock), README.md (what threads may share).
#pragma once

#include <mutex>

#include "node.h"

namespace mezzo {

/** Recursive: what is called after an accumulation may use the gradient, and go backward again. */
struct LeafLock : std::recursive_mutex {};

/** Holds the lock while it lives; nothing for a tensor that was never asked for a gradient. */
inline std::unique_lock<std::recursive_mutex> locked(const GradState& state) {
  if (!state.lock) return {};
  return std::unique_lock<std::recursive_mutex>(*state.lock);
}

}  // namespace mezzo
