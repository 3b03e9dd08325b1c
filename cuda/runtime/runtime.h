// The functions of the CUDA runtime that Mezzo uses, as a narrow interface. runtime.cpp implements
// it with cudart, tests/emulator/runtime.cpp on the host. Parsed by g++ and by nvcc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "failed_call.h"

namespace mezzo::gpu::runtime {

/** A queue of device work; cudaStream_t. */
using Stream = void*;
/** A point in a stream; cudaEvent_t. */
using Event = void*;
/** Place of a call, for error messages. */
using Place = CallPlace;

/** The devices of this machine. discover() never fails: without a driver the count is 0 and
 *  `absence` gives the reason. */
struct Discovery {
  int count = 0;
  std::string absence;
};
Discovery discover();

/** Returns name, memory and architecture of a device and the versions of driver and runtime.
 *  Errors: CudaError. */
std::string description(int device);

/** Returns a device's compute capability as 10 * major + minor: 90 for sm_90. Errors: CudaError. */
int compute_capability(int device);

/** Makes a device this thread's current one, which receives its launches. Errors: CudaError. */
void use(int device, Place place = Place::current());

// ---- memory -------------------------------------------------------------------------------------
/** Allocates device memory, aligned to 256 bytes. Returns null if there is not enough. Errors:
 *  CudaError. */
void* allocate(int device, std::size_t bytes, Place place = Place::current());
void deallocate(int device, void* block, std::size_t bytes) noexcept;

/** Free and total memory of a device, in bytes. */
struct Memory {
  std::int64_t free = 0, total = 0;
};
Memory memory(int device);

/** Allocates pinned host memory, which the device can access directly. Returns null if there is not
 *  enough. */
void* allocate_pinned(std::size_t bytes, Place place = Place::current());
void deallocate_pinned(void* block) noexcept;

/** Tell memory checkers that a block entered the allocator's cache, or left it to serve `bytes`
 *  bytes. They do nothing on a real device. */
void block_cached(void* block, std::size_t block_bytes) noexcept;
void block_reused(void* block, std::size_t block_bytes, std::size_t bytes) noexcept;

// ---- streams: work in one runs in order. Errors of all: CudaError -------------------------------
/** Creates a stream. An `urgent` one has the highest priority. */
Stream create_stream(int device, bool urgent = false, Place place = Place::current());
/** Waits on the host until all work of the stream is done. */
void synchronize(Stream stream, Place place = Place::current());
/** Waits on the host until all streams of the device are done. */
void synchronize_device(int device, Place place = Place::current());
/** Returns true if all work of the stream is done, without waiting. */
bool is_idle(Stream stream, Place place = Place::current());
/** Copies bytes between host and device memory in any combination, in stream order. A copy from or
 *  to pageable host memory returns when that memory may be used again. */
void copy(void* to, const void* from, std::size_t bytes, Stream stream,
          Place place = Place::current());

/** Creates an event on the current device. Only a timed event records when it is reached. */
Event create_event(bool timed = false, Place place = Place::current());
void destroy_event(Event event) noexcept;
void record(Event event, Stream stream, Place place = Place::current());
/** Makes later work of the stream wait for the event; the host does not wait. */
void wait(Stream stream, Event event, Place place = Place::current());
void synchronize_event(Event event, Place place = Place::current());
/** Returns true if a recorded event has been reached, without waiting. */
bool reached(Event event, Place place = Place::current());
/** Returns the time between two recorded and reached events, in milliseconds. */
float elapsed(Event begin, Event end, Place place = Place::current());

// ---- captured work: recorded instead of run, and launched later as a whole ----------------------
/** Recorded work, ready to run; cudaGraphExec_t. */
using Graph = void*;

void begin_capture(Stream stream, Place place = Place::current());
/** Ends the capture and returns its graph. Errors: CudaError where some of the work cannot be
 *  captured. The stream leaves capture mode in any case. */
Graph end_capture(Stream stream, Place place = Place::current());
/** Ends a capture and discards its work. */
void abandon_capture(Stream stream) noexcept;
void launch_graph(Graph graph, Stream stream, Place place = Place::current());
void destroy_graph(Graph graph) noexcept;

// ---- for profilers ------------------------------------------------------------------------------
/** Open and close a named range of this thread in the NVTX domain "mezzo". Ranges nest. */
void push_range(const char* name) noexcept;
void pop_range() noexcept;

/** Returns how many blocks of a kernel, with these bytes of dynamic shared memory each, a device
 *  runs at once; 0 if it has no cooperative launches. Errors: CudaError. */
std::int64_t resident_blocks(const void* kernel, int threads, std::size_t shared, int device,
                             Place place = Place::current());
/** Launches a kernel whose blocks run at once and may wait for each other. `arguments`: the address
 *  of each. For nvcc's code. Errors: CudaError. */
void launch_together(const void* kernel, int blocks, int threads, std::size_t shared,
                     void** arguments, Stream stream, Place place);

/** Throws if the last launch was rejected. Errors: CudaError. */
void check_launch(Place place);
/** Rejects a grid of too many blocks. Errors: CudaError, always. */
[[noreturn]] void refuse_launch(std::int64_t blocks, std::int64_t most, Place place);

/** Clears the error state after a library failed in `call`, so that later calls do not report it.
 *  Errors: CudaError where the device is broken. */
void recover(const char* call, Place place = Place::current());

}  // namespace mezzo::gpu::runtime
