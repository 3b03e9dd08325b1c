// The CUDA runtime as this room uses it: a dozen functions, so narrow that the emulated build puts its own behind them.
// Sees: place.h; parsed by nvcc too.
// Read next: runtime.cpp (on cudart), ../tests/emulator/runtime.cpp (on the host), stream.h, launch.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "place.h"

namespace mezzo::gpu::runtime {

/** A queue of device work; cudaStream_t. */
using Stream = void*;
/** A point in a stream; cudaEvent_t. */
using Event = void*;
/** Where a call was made; errors name it. */
using Place = CallPlace;

/** The devices of this machine. Never fails: without a driver there are none, and `absence` says why. */
struct Discovery {
  int count = 0;
  std::string absence;
};
Discovery discover();

/** Name, memory and architecture of a device, versions of driver and runtime. Errors: CudaError. */
std::string description(int device);

/** What a device can do, as 10 times the major number and the minor: 90 for sm_90. Errors: CudaError. */
int compute_capability(int device);

/** Makes a device the one that this thread's launches go to. Errors: CudaError. */
void use(int device, Place place = Place::current());

// ---- memory -------------------------------------------------------------------------------------------------------------
/** Device memory, aligned to 256 bytes; null where there is not enough. Errors: CudaError. */
void* allocate(int device, std::size_t bytes, Place place = Place::current());
void deallocate(int device, void* block, std::size_t bytes) noexcept;

/** Bytes of a device's memory. */
struct Memory {
  std::int64_t free = 0, total = 0;
};
Memory memory(int device);

/** Host memory that the device copies from and to without a detour; null where there is not enough. */
void* allocate_pinned(std::size_t bytes, Place place = Place::current());
void deallocate_pinned(void* block) noexcept;

/** For checkers: a block waits in the allocator's cache, or leaves it for `bytes` of new use. Nothing happens on a real device. */
void block_cached(void* block, std::size_t block_bytes) noexcept;
void block_reused(void* block, std::size_t block_bytes, std::size_t bytes) noexcept;

// ---- streams: work in one runs in order. Errors of all: CudaError ------------------------------------------------------------
/** `urgent`: its work goes before that of others where both could run. */
Stream create_stream(int device, bool urgent = false, Place place = Place::current());
void destroy_stream(Stream stream) noexcept;
/** Waits on the host until the stream has run dry. */
void synchronize(Stream stream, Place place = Place::current());
/** The same for all streams of the device. */
void synchronize_device(int device, Place place = Place::current());
/** Whether the stream has run dry; never waits. */
bool is_idle(Stream stream, Place place = Place::current());
/** Copies bytes between any two places, in stream order. From or to host memory that is not pinned, it returns when that memory is free again. */
void copy(void* to, const void* from, std::size_t bytes, Stream stream, Place place = Place::current());

/** An event of the device in use. Only a timed one knows when it was reached. */
Event create_event(bool timed = false, Place place = Place::current());
void destroy_event(Event event) noexcept;
void record(Event event, Stream stream, Place place = Place::current());
/** Work put into the stream from now on waits for the event; the host does not. */
void wait(Stream stream, Event event, Place place = Place::current());
void synchronize_event(Event event, Place place = Place::current());
/** Whether a recorded event has been reached; never waits. */
bool reached(Event event, Place place = Place::current());
/** Time between two recorded and reached events, in milliseconds. */
float elapsed(Event begin, Event end, Place place = Place::current());

// ---- captured work: what is put into a stream is recorded instead, and can be put into it again as a whole ------------------------
/** Recorded work, ready to run; cudaGraphExec_t. */
using Graph = void*;

void begin_capture(Stream stream, Place place = Place::current());
/** Errors: CudaError where something in between cannot be captured. The stream is as before in any case. */
Graph end_capture(Stream stream, Place place = Place::current());
/** Ends a capture whose work is not wanted. */
void abandon_capture(Stream stream) noexcept;
void launch_graph(Graph graph, Stream stream, Place place = Place::current());
void destroy_graph(Graph graph) noexcept;

// ---- for profilers --------------------------------------------------------------------------------------------------------------
/** A named stretch of this thread's time, in the NVTX domain "mezzo"; they nest. */
void push_range(const char* name) noexcept;
void pop_range() noexcept;

/** Reports a launch that was refused. */
void check_launch(Place place);
/** Refuses a grid of too many blocks. Errors: CudaError, always. */
[[noreturn]] void refuse_launch(std::int64_t blocks, std::int64_t most, Place place);

/** For the caller of a library, which failed in `call`: takes back what the next call would be
 *  blamed for. Errors: CudaError where the device is broken. */
void recover(const char* call, Place place = Place::current());

}  // namespace mezzo::gpu::runtime
