// The emulated device's memory: an address range that is accessible only while a kernel or a copy
// runs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../../tensor/core/macros.h"

namespace mezzo::emulator {

/** Scope in which device memory is accessible. Scopes nest. Outside of them, access to a device
 *  address ends the program with a segmentation fault, which reveals CPU kernels and host code that
 *  use device memory. Closing costs a system call and a pass over all pages, so the memory stays
 *  open after most scopes and is closed after one in many. */
class MZ_API MemoryScope {
 public:
  MemoryScope();
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;
};

/** Makes device memory inaccessible at once. */
MZ_API void close_memory();
/** Sets whether the memory is closed after every scope, so that every access of the host is
 *  found. */
MZ_API void close_memory_after_scopes(bool every);

/** Returns true if an address is device memory. */
MZ_API bool is_device_memory(const void* address);

/** Allocates a block of device memory. Returns null if the device is full. Blocks are separated by
 *  gaps. */
void* take_memory(std::size_t bytes);
void give_memory(void* block) noexcept;
/** Return the allocated bytes of the device and its size. */
MZ_API std::size_t memory_taken();
std::size_t memory_size();
/** Sets the device's size, for tests. */
MZ_API void set_memory_size(std::size_t bytes);

/** Marks the first `bytes` bytes of the block as used and fills them with 0xFF. The rest must not
 *  be written. */
void mark_used(void* block, std::size_t block_bytes, std::size_t bytes);
/** Marks the whole block as used and keeps its content. */
void mark_used_as_is(void* block, std::size_t block_bytes);
/** Marks the block as unused: it must not be accessed before mark_used. Counts an overrun if the
 *  bytes after its used part were written. */
void mark_unused(void* block, std::size_t block_bytes);

/** Allocates host memory that counts as pinned. Returns null beyond the limit of
 *  set_pinned_size. */
void* take_pinned(std::size_t bytes);
void give_pinned(void* block) noexcept;
bool is_pinned_memory(const void* address);
/** Sets the limit of pinned bytes. */
MZ_API void set_pinned_size(std::size_t bytes);

/** Returns the number of blocks that were written beyond their end. */
MZ_API std::int64_t overrun_blocks();

}  // namespace mezzo::emulator
