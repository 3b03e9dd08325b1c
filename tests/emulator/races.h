// Detection of races on shared memory: two threads of a block access the same byte, at least one
// writes, and there is no barrier between.
//
// Each byte has a shadow: its last writer, its last reader, and whether several threads have read
// it. Only code compiled with -fsanitize=thread is checked: the compiler calls a hook before each
// memory access, and races.cpp implements these hooks.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mezzo::emulator::races {

/** Begins another block, which shares no memory yet. */
void begin_block();
/** Adds memory of the block. `name` must outlive the block. */
void add_memory(const char* name, const void* data, std::size_t bytes);
/** Records that the running lane reads or writes these bytes. Ends the launch with a Fault on a
 *  race. */
void touch(const void* address, std::size_t bytes, bool writes);
/** The running lane. */
extern unsigned lane;
/** Records a barrier of the block: it orders all earlier accesses before all later ones. */
void order_block();
/** Records a barrier of some lanes of the warp that begins at lane `first`. */
void order_warp(unsigned first, std::uint32_t mask);

}  // namespace mezzo::emulator::races
