// The CUDA runtime of the emulated build: two devices, whose work is done when the call that asks for it returns, but while a test wants it late.
#include "../../cuda/runtime.h"

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "../../tensor/error.h"
#include "../../tensor/text.h"
#include "capability.h"
#include "counters.h"
#include "cuda.h"
#include "fill.h"
#include "memory.h"
#include "streams.h"

namespace mezzo::emulator {

namespace {
int capability = 90;
}

void set_compute_capability(int value) { capability = value; }

Counters& counters() {
  static Counters only;
  return only;
}

std::vector<std::string>& ranges() {
  static thread_local std::vector<std::string> all;
  return all;
}

namespace {

LaunchLog* open_log = nullptr;

/** As "softmax.cu:40". */
std::string text_of(WorkName name) {
  const std::string_view path = name.what;
  const std::string_view file = path.substr(path.rfind('/') + 1);
  return name.line == 0 ? std::string(file) : str(file, ":", name.line);
}

}  // namespace

LaunchLog::LaunchLog() : outer_(std::exchange(open_log, this)) {}
LaunchLog::~LaunchLog() { open_log = outer_; }

namespace {

/** Work in order. */
struct Recording {
  const void* stream = nullptr;
  std::vector<std::function<void()>> work;
};

thread_local int in_use = 0;

/** Kernels and events go to streams of the device in use, and to no others. */
void require_in_use(const char* call, const Stream* stream) {
  if (stream && device_of(stream) != in_use)
    fail<CudaError>(call, {.what = "invalid resource handle",
                           .got = str("a stream of device ", device_of(stream)),
                           .expected = str("device ", in_use, ", which is in use")});
}

std::unique_ptr<Recording>& recording() {
  static std::unique_ptr<Recording> only;
  return only;
}

/** Whether what is put into the stream is kept instead of done. */
bool records(const void* stream) { return recording() && recording()->stream == stream; }

void do_or_keep(void* stream, std::function<void()> work) {
  if (records(stream))
    recording()->work.push_back(std::move(work));
  else
    put(static_cast<Stream*>(stream), std::move(work));
}

}  // namespace

void submit(WorkName name, std::function<void()> work) {
  require_in_use("kernel launch", static_cast<const Stream*>(name.stream));
  do_or_keep(name.stream, [name, work = std::move(work)] {
    ++counters().launches;
    if (open_log) open_log->names.push_back(text_of(name));
    if (name.line != 0 || !DryRun::is_on()) work();  // a kernel's launch logs it
  });
}

}  // namespace mezzo::emulator

namespace mezzo::gpu::runtime {

using namespace mezzo::emulator;

namespace {

emulator::Stream* stream_of(Stream handle) { return static_cast<emulator::Stream*>(handle); }
emulator::Event* event_of(Event handle) { return static_cast<emulator::Event*>(handle); }

/** What waits for a stream breaks its capture; `breaks` is whether this call would. */
void refuse_in_capture(const char* call, bool breaks, Place place) {
  if (breaks)
    fail<CudaError>(call, {.what = "operation not permitted when stream is capturing",
                           .hint = str("called at ", place.file, ":", place.line)});
}

}  // namespace

Discovery discover() { return {2, ""}; }

std::string description(int) { return str("a device emulated on the host, ", memory_size() >> 30, " GiB"); }

int compute_capability(int) { return emulator::capability; }

void use(int device, Place) { in_use = device; }

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
  return take_pinned(bytes);
}
void deallocate_pinned(void* block) noexcept { give_pinned(block); }

// Work that is late still needs what is in its blocks, and a dry run touches none.
void block_cached(void* block, std::size_t block_bytes) noexcept {
  if (!LateWork::is_wanted() && !DryRun::is_on()) mark_unused(block, block_bytes);
}
void block_reused(void* block, std::size_t block_bytes, std::size_t bytes) noexcept {
  if (LateWork::is_wanted() || DryRun::is_on())
    mark_used_as_is(block, block_bytes);
  else
    mark_used(block, block_bytes, bytes);
}

Stream create_stream(int device, bool, Place) { return make_stream(device); }
void destroy_stream(Stream stream) noexcept { drop_stream(stream_of(stream)); }
void synchronize(Stream stream, Place place) {
  refuse_in_capture("cudaStreamSynchronize", records(stream), place);
  ++counters().synchronisations;
  run_dry(stream_of(stream));
}
void synchronize_device(int device, Place place) {
  refuse_in_capture("cudaDeviceSynchronize", recording() != nullptr, place);
  ++counters().synchronisations;
  run_device_dry(device);
}
bool is_idle(Stream stream, Place place) {
  refuse_in_capture("cudaStreamQuery", records(stream), place);
  return is_dry(stream_of(stream));
}

namespace {

void copy_now(void* to, const void* from, std::size_t bytes) {
  ++counters().copies;
  const MemoryScope scope;
  if (!DryRun::is_on() || bytes <= DryRun::kCopied)
    std::memcpy(to, from, bytes);
  else if (!is_device_memory(to))
    std::memset(to, 0, bytes);
}

bool is_pageable(const void* address) { return !is_device_memory(address) && !is_pinned_memory(address); }

}  // namespace

// What is read from pageable memory is read at once, and what is written to it is there when the call returns.
void copy(void* to, const void* from, std::size_t bytes, Stream stream, Place) {
  if (records(stream) || !LateWork::is_wanted() || (!is_pageable(from) && !is_pageable(to)))
    return do_or_keep(stream, [=] { copy_now(to, from, bytes); });
  if (is_pageable(to)) {
    run_dry(stream_of(stream));
    return copy_now(to, from, bytes);
  }
  const char* first = static_cast<const char*>(from);
  put(stream_of(stream),
      [to, staged = std::vector<char>(first, first + bytes)] { copy_now(to, staged.data(), staged.size()); });
}

Event create_event(bool timed, Place) { return make_event(timed); }
void destroy_event(Event event) noexcept { drop_event(event_of(event)); }
void record(Event event, Stream stream, Place) {
  require_in_use("cudaEventRecord", stream_of(stream));
  place(event_of(event), stream_of(stream));
}
void wait(Stream stream, Event event, Place) { hold(stream_of(stream), event_of(event)); }
void synchronize_event(Event event, Place place) {
  refuse_in_capture("cudaEventSynchronize", recording() != nullptr, place);
  ++counters().synchronisations;
  run_until(event_of(event));
}
bool reached(Event event, Place) { return is_reached(event_of(event)); }
float elapsed(Event begin, Event end, Place place) {
  for (const Event event : {begin, end})
    if (!is_timed(event_of(event)))
      fail<CudaError>("cudaEventElapsedTime", {.what = "invalid resource handle",
                                               .got = "an event that was created without timing",
                                               .hint = str("called at ", place.file, ":", place.line)});
  return between(event_of(begin), event_of(end));
}

void begin_capture(Stream stream, Place place) {
  refuse_in_capture("cudaStreamBeginCapture", recording() != nullptr, place);
  recording() = std::make_unique<Recording>();
  recording()->stream = stream;
}
Graph end_capture(Stream, Place) { return recording().release(); }
void abandon_capture(Stream) noexcept { recording().reset(); }
void launch_graph(Graph graph, Stream stream, Place place) {
  refuse_in_capture("cudaGraphLaunch", records(stream), place);
  ++counters().graph_launches;
  put(stream_of(stream), [graph] {
    for (const auto& work : static_cast<Recording*>(graph)->work) work();
  });
}
void destroy_graph(Graph graph) noexcept {
  run_all_dry();  // as the driver does, it lets the graph finish
  delete static_cast<Recording*>(graph);
}

void push_range(const char* name) noexcept { ranges().emplace_back(name); }
void pop_range() noexcept { ranges().emplace_back(); }

void check_launch(Place) {}

}  // namespace mezzo::gpu::runtime
