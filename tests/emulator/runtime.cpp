// The CUDA runtime of the emulated build: one device, whose work is done when the call that asks for it returns.
#include "../../cuda/runtime.h"

#include <chrono>
#include <cstdlib>
#include <cstring>

#include "../../tensor/text.h"
#include "counters.h"
#include "cuda.h"
#include "memory.h"

namespace mezzo::emulator {

Counters& counters() {
  static Counters only;
  return only;
}

void count_launch() { ++counters().launches; }

}  // namespace mezzo::emulator

namespace mezzo::gpu::runtime {

using namespace mezzo::emulator;

namespace {

/** A stream holds nothing, since nothing ever waits. */
struct EmulatedStream {};

struct EmulatedEvent {
  std::chrono::steady_clock::time_point time;
};

}  // namespace

Discovery discover() { return {1, ""}; }

std::string description(int) { return str("a device emulated on the host, ", memory_size() >> 30, " GiB"); }

void use(int, Place) {}

void* allocate(int, std::size_t bytes, Place) {
  ++counters().allocations;
  return take_memory(bytes);
}
void deallocate(int, void* block, std::size_t) noexcept { give_memory(block); }

Memory memory(int) {
  return {static_cast<std::int64_t>(memory_size() - memory_taken()),
          static_cast<std::int64_t>(memory_size())};
}

void* allocate_pinned(std::size_t bytes, Place) {
  ++counters().allocations;
  return std::malloc(bytes);
}
void deallocate_pinned(void* block) noexcept { std::free(block); }

void block_cached(void* block, std::size_t block_bytes) noexcept { mark_unused(block, block_bytes); }
void block_reused(void* block, std::size_t block_bytes, std::size_t bytes) noexcept {
  mark_used(block, block_bytes, bytes);
}

Stream create_stream(int, Place) { return new EmulatedStream; }
void destroy_stream(Stream stream) noexcept { delete static_cast<EmulatedStream*>(stream); }
void synchronize(Stream, Place) { ++counters().synchronisations; }

void copy(void* to, const void* from, std::size_t bytes, Stream, Place) {
  ++counters().copies;
  const MemoryScope scope;
  std::memcpy(to, from, bytes);
}

Event create_event(Place) { return new EmulatedEvent; }
void destroy_event(Event event) noexcept { delete static_cast<EmulatedEvent*>(event); }
void record(Event event, Stream, Place) {
  static_cast<EmulatedEvent*>(event)->time = std::chrono::steady_clock::now();
}
void wait(Stream, Event, Place) {}
void synchronize_event(Event, Place) { ++counters().synchronisations; }
float elapsed(Event begin, Event end, Place) {
  const auto span = static_cast<EmulatedEvent*>(end)->time - static_cast<EmulatedEvent*>(begin)->time;
  return std::chrono::duration<float, std::milli>(span).count();
}

void check_launch(Place) {}

}  // namespace mezzo::gpu::runtime
