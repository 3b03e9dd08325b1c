#include "numerics.h"

#include <atomic>

namespace mezzo {

namespace {

std::atomic<bool>& tf32() {
  static std::atomic<bool> on{false};
  return on;
}

}  // namespace

bool allow_tf32() { return tf32().load(std::memory_order_relaxed); }
void set_allow_tf32(bool on) { tf32().store(on, std::memory_order_relaxed); }

}  // namespace mezzo
