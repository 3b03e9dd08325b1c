// Races on shared memory: two threads of a block that touch the same byte, one of them writing,
// without a barrier between.
// Sees: the standard library.
// Read next: races.cpp, executor.cpp (who tells of blocks and barriers).
//
// Each byte has a shadow: its last writer, its last reader, and whether several threads have read
// it. Only code that was compiled with -fsanitize=thread is watched: the compiler puts a call
// before each access of memory, and the functions that it calls are ours.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mezzo::emulator::races {

/** Another block runs, which shares nothing yet. */
void begin_block();
/** The block uses these bytes; the name must last. */
void add_memory(const char* name, const void* data, std::size_t bytes);
/** The running lane reads or writes these bytes. Ends the launch with a Fault where that is a
 *  race. */
void touch(const void* address, std::size_t bytes, bool writes);
/** The lane that runs from now on. */
extern unsigned lane;
/** All threads of the block have met: what each did before comes before what any does from now
 *  on. */
void order_block();
/** The same for some lanes of a warp, which begins at lane `first`. */
void order_warp(unsigned first, std::uint32_t mask);

}  // namespace mezzo::emulator::races
