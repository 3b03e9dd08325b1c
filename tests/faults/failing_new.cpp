// Replaces the global operator new of this program and of the libraries it uses.
#include "failing_new.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::int64_t> left{0};  // calls until the failing one; 0: none fails
std::atomic<bool> failed{false};

bool fails_now() {
  if (left.load(std::memory_order_relaxed) <= 0) return false;
  if (left.fetch_sub(1, std::memory_order_relaxed) != 1) return false;
  failed.store(true, std::memory_order_relaxed);
  return true;
}

void* allocate(std::size_t bytes, std::size_t alignment) {
  void* block = nullptr;
  if (fails_now() || ::posix_memalign(&block, alignment, bytes == 0 ? 1 : bytes) != 0)
    throw std::bad_alloc();
  return block;
}

}  // namespace

void faults::fail_new(std::int64_t n) {
  failed.store(false, std::memory_order_relaxed);
  left.store(n, std::memory_order_relaxed);
}

bool faults::has_failed() { return failed.load(std::memory_order_relaxed); }

// The array forms call these. The nothrow form does, too, but AddressSanitizer has one of its own.
void* operator new(std::size_t bytes) { return allocate(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return operator new(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, const std::nothrow_t&) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }
void operator delete(void* block, std::align_val_t) noexcept { std::free(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { std::free(block); }
