// Workspace: scratch memory of a kernel from the caching allocator, freed at the end of the scope.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "../memory/allocator.h"

namespace mezzo::cpu_kernels {

/** Uninitialised memory for `count` elements of T, 64-byte aligned. Errors: OutOfMemory. */
template <class T> class Workspace {
 public:
  /** Creates an empty workspace. */
  Workspace() = default;
  explicit Workspace(std::int64_t count)
      : bytes_(static_cast<std::size_t>(count) * sizeof(T)),
        data_(bytes_ == 0 ? nullptr
                          : allocator_for(cpu).allocate(bytes_, MemoryCategory::workspace)) {}
  ~Workspace() {
    if (data_) allocator_for(cpu).deallocate(data_, bytes_, MemoryCategory::workspace);
  }
  Workspace(Workspace&& other) noexcept { swap(other); }
  Workspace& operator=(Workspace&& other) noexcept {
    swap(other);
    return *this;
  }

  T* data() const { return static_cast<T*>(data_); }

 private:
  void swap(Workspace& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(data_, other.data_);
  }

  std::size_t bytes_ = 0;
  void* data_ = nullptr;
};

}  // namespace mezzo::cpu_kernels
