// The emulated device's memory: an address range of its own, which may be touched while a kernel or a copy runs and not else.
// Sees: the standard library, ../../tensor/macros.h.
// Read next: memory.cpp, runtime.cpp (who hands it out).
#pragma once

#include <cstddef>
#include <cstdint>

#include "../../tensor/macros.h"

namespace mezzo::emulator {

/** Opens device memory while it lives; scopes nest. Without one, touching a device address ends the program with a segmentation fault: so a CPU
 *  kernel that was handed device memory shows, or host code that reads through a device tensor's address. Closing costs a system call and
 *  a tour of all its pages, so the memory stays open after most scopes and is closed after one in many. */
class MZ_API MemoryScope {
 public:
  MemoryScope();
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;
};

/** Closes device memory now. */
MZ_API void close_memory();

/** Whether an address belongs to the device. */
MZ_API bool is_device_memory(const void* address);

/** A block of device memory, or null when the device is full. Blocks lie apart from each other. */
void* take_memory(std::size_t bytes);
void give_memory(void* block) noexcept;
/** Bytes of the device that are taken, and all it has. */
MZ_API std::size_t memory_taken();
std::size_t memory_size();
/** Makes the device as large as a test wants it. */
MZ_API void set_memory_size(std::size_t bytes);

/** `bytes` of the block are in use from now on, all of them 0xFF; what lies behind them may not be written. */
void mark_used(void* block, std::size_t block_bytes, std::size_t bytes);
/** All of the block is in use, with what is in it. */
void mark_used_as_is(void* block, std::size_t block_bytes);
/** Nothing of the block may be touched until mark_used. Notes a fault where the bytes behind its used part were written. */
void mark_unused(void* block, std::size_t block_bytes);

/** Host memory that counts as pinned, or null where a test allows no more of it. */
void* take_pinned(std::size_t bytes);
void give_pinned(void* block) noexcept;
bool is_pinned_memory(const void* address);
/** The most bytes that are pinned at once. */
MZ_API void set_pinned_size(std::size_t bytes);

/** Blocks that were written beyond their end so far. */
MZ_API std::int64_t overrun_blocks();

}  // namespace mezzo::emulator
