#include "memory_hook.h"

#include <utility>

#include "../core/guard_list.h"

namespace mezzo {

MemoryHook*& MemoryHook::innermost() {
  static constinit thread_local MemoryHook* hook = nullptr;
  return hook;
}

MemoryHook::MemoryHook() : outer_(std::exchange(innermost(), this)) {
  open_.fetch_add(1, std::memory_order_relaxed);
}

MemoryHook::~MemoryHook() {
  open_.fetch_sub(1, std::memory_order_relaxed);
  close_guard(innermost(), *this, &MemoryHook::outer_,
              "memory hooks must be destroyed in reverse order of construction");
}

}  // namespace mezzo
