#include "races.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "executor.h"
#include "sectors.h"

namespace mezzo::emulator::races {

unsigned lane = 0;

namespace {

/** An access: its lane, and the barriers before it. */
struct Access {
  std::uint64_t epoch = 0;  // of the block: incremented by each barrier and each block
  std::uint32_t turn = 0;   // of the lane: incremented by each barrier of its warp
  std::uint16_t lane = 0;
  bool atomic = false;
  bool several = false, several_warps = false;  // by several lanes, by lanes of several warps
};

/** The last accesses of one byte. */
struct Byte {
  Access written, read;
};

struct WatchedMemory {
  const char* name = "";
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
  Byte* shadow = nullptr;  // created at the first access from instrumented code
};

std::uint64_t epoch = 1;
std::uint32_t turns[1024];
std::vector<WatchedMemory> memories;  // of the running block
std::uintptr_t low = 0;               // range that contains all of them
std::size_t span = 0;

/** Returns the shadow of a piece of memory. It is never freed, as the memory itself. */
Byte* shadow_of(std::uintptr_t memory, std::size_t bytes) {
  static auto& all = *new std::unordered_map<std::uintptr_t, std::vector<Byte>>;
  std::vector<Byte>& shadow = all[memory];
  if (shadow.size() < bytes) shadow.resize(bytes);
  return shadow.data();
}

/** Returns true if no barrier separates an earlier access from one of the running lane. */
bool is_unordered(const Access& before) {
  return before.epoch == epoch && before.lane != lane &&
         (before.lane / kWarp != lane / kWarp || before.turn >= turns[lane]);
}

/** Returns true if no barrier separates any of a byte's readers from the running lane. */
bool any_unordered(const Access& readers) {
  if (readers.epoch != epoch) return false;
  if (readers.several_warps) return true;
  if (!readers.several) return is_unordered(readers);
  return readers.lane / kWarp != lane / kWarp || readers.turn >= turns[lane];
}

void report(const WatchedMemory& memory, std::size_t at, const Access& other, const char* what) {
  std::string text = "threads " + std::to_string(other.lane) + " and " + std::to_string(lane) +
                     " touch byte " + std::to_string(at) + " of shared memory `" + memory.name +
                     "` without a barrier between, and " + what;
  fail_kernel(std::move(text));
}

void note_reader(Access& read) {
  const bool same_warp = read.lane / kWarp == lane / kWarp;
  const bool all_before = !read.several_warps && same_warp && read.turn < turns[lane];
  if (read.epoch != epoch || all_before) {
    read = {epoch, turns[lane], static_cast<std::uint16_t>(lane)};
  } else if (read.lane != lane) {
    read.several = true;
    read.several_warps = read.several_warps || !same_warp;
    read.turn = std::max(read.turn, turns[lane]);
  }
}

void touch_byte(const WatchedMemory& memory, std::size_t at, bool writes) {
  Byte& byte = memory.shadow[at];
  const bool atomic = here.atomic;
  if (is_unordered(byte.written) && !(atomic && byte.written.atomic))
    report(memory, at, byte.written, writes ? "both write" : "the first writes");
  if (!writes) {
    if (!atomic)
      note_reader(byte.read);  // an atomic read is followed by a write, which is
                               // recorded
    return;
  }
  if (any_unordered(byte.read)) report(memory, at, byte.read, "the second writes");
  byte.written = {epoch, turns[lane], static_cast<std::uint16_t>(lane), atomic};
}

void touch_shared(std::uintptr_t address, std::size_t bytes, bool writes) {
  for (WatchedMemory& memory : memories) {
    const std::size_t at = address - memory.begin;
    if (at >= memory.bytes) continue;
    if (!memory.shadow) memory.shadow = shadow_of(memory.begin, memory.bytes);
    for (std::size_t i = at; i < std::min(at + bytes, memory.bytes); ++i)
      touch_byte(memory, i, writes);
  }
}

}  // namespace

void touch(const void* address, std::size_t bytes, bool writes) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  if (at - low < span) touch_shared(at, bytes, writes);
}

void begin_block() {
  ++epoch;
  memories.clear();
  span = 0;
}

void add_memory(const char* name, const void* data, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  memories.push_back({.name = name, .begin = begin, .bytes = bytes});
  const std::uintptr_t end = std::max(begin + bytes, span > 0 ? low + span : 0);
  low = span > 0 ? std::min(low, begin) : begin;
  span = end - low;
}

void order_block() { ++epoch; }

void order_warp(unsigned first, std::uint32_t mask) {
  std::uint32_t turn = 0;
  for (unsigned i = 0; i < kWarp; ++i)
    if (mask >> i & 1) turn = std::max(turn, turns[first + i]);
  for (unsigned i = 0; i < kWarp; ++i)
    if (mask >> i & 1) turns[first + i] = turn + 1;
}

}  // namespace mezzo::emulator::races

// ---- hooks that the compiler calls before each access -------------------------------------------
//
// Instrumented code cannot also have AddressSanitizer's checks, so the hooks make them where its
// library is linked.

#define MZ_HOOK extern "C" __attribute__((visibility("default")))
#define MZ_WEAK extern "C" __attribute__((weak))

#define MZ_TOUCH(address, bytes, writes)                 \
  mezzo::emulator::races::touch(address, bytes, writes); \
  mezzo::emulator::sectors::touch(__builtin_return_address(0), address, bytes, writes)
#define MZ_ACCESS(hook, check, bytes, writes) \
  MZ_WEAK void check(const void*);            \
  MZ_HOOK void hook(void* address) {          \
    if (check) check(address);                \
    MZ_TOUCH(address, bytes, writes);         \
  }
#define MZ_ACCESSES(bytes)                                        \
  MZ_ACCESS(__tsan_read##bytes, __asan_load##bytes, bytes, false) \
  MZ_ACCESS(__tsan_write##bytes, __asan_store##bytes, bytes, true)
#define MZ_UNALIGNED(bytes)                                                 \
  MZ_ACCESS(__tsan_unaligned_read##bytes, __asan_load##bytes, bytes, false) \
  MZ_ACCESS(__tsan_unaligned_write##bytes, __asan_store##bytes, bytes, true)

MZ_ACCESSES(1)
MZ_ACCESSES(2)
MZ_ACCESSES(4)
MZ_ACCESSES(8)
MZ_ACCESSES(16)
MZ_UNALIGNED(2)
MZ_UNALIGNED(4)
MZ_UNALIGNED(8)
MZ_UNALIGNED(16)

MZ_WEAK void __asan_loadN(const void*, std::size_t);
MZ_WEAK void __asan_storeN(const void*, std::size_t);
MZ_HOOK void __tsan_read_range(void* address, std::size_t bytes) {
  if (__asan_loadN) __asan_loadN(address, bytes);
  MZ_TOUCH(address, bytes, false);
}
MZ_HOOK void __tsan_write_range(void* address, std::size_t bytes) {
  if (__asan_storeN) __asan_storeN(address, bytes);
  MZ_TOUCH(address, bytes, true);
}

// Atomic operations of host code in kernel files.
#define MZ_ATOMIC(bits, name, builtin)                                                       \
  MZ_HOOK std::uint##bits##_t __tsan_atomic##bits##_##name(volatile std::uint##bits##_t* at, \
                                                           std::uint##bits##_t value, int) { \
    return builtin(at, value, __ATOMIC_SEQ_CST);                                             \
  }
#define MZ_ATOMICS(bits)                                                                           \
  MZ_ATOMIC(bits, exchange, __atomic_exchange_n)                                                   \
  MZ_ATOMIC(bits, fetch_add, __atomic_fetch_add)                                                   \
  MZ_ATOMIC(bits, fetch_sub, __atomic_fetch_sub)                                                   \
  MZ_ATOMIC(bits, fetch_and, __atomic_fetch_and)                                                   \
  MZ_ATOMIC(bits, fetch_or, __atomic_fetch_or)                                                     \
  MZ_HOOK std::uint##bits##_t __tsan_atomic##bits##_load(const volatile std::uint##bits##_t* at,   \
                                                         int) {                                    \
    return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                                  \
  }                                                                                                \
  MZ_HOOK void __tsan_atomic##bits##_store(volatile std::uint##bits##_t* at,                       \
                                           std::uint##bits##_t value, int) {                       \
    __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                                 \
  }                                                                                                \
  MZ_HOOK int __tsan_atomic##bits##_compare_exchange_strong(volatile std::uint##bits##_t* at,      \
                                                            std::uint##bits##_t* expected,         \
                                                            std::uint##bits##_t value, int, int) { \
    return __atomic_compare_exchange_n(at, expected, value, false, __ATOMIC_SEQ_CST,               \
                                       __ATOMIC_SEQ_CST);                                          \
  }

MZ_ATOMICS(8)
MZ_ATOMICS(32)
MZ_ATOMICS(64)

MZ_HOOK void __tsan_init() {}
MZ_HOOK void __tsan_func_entry(void*) {}
MZ_HOOK void __tsan_func_exit() {}
MZ_HOOK void __tsan_vptr_update(void**, void*) {}
MZ_HOOK void __tsan_vptr_read(void**) {}
