// Replaces operator new so that a request larger than any op needs fails at once, not after filling
// memory.
#include <cstdlib>
#include <new>

namespace {
constexpr std::size_t kMost = std::size_t{64} << 20;
}  // namespace

void* operator new(std::size_t bytes) {
  void* block = bytes > kMost ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
  if (!block) throw std::bad_alloc();
  return block;
}

void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }
