// The CUDA runtime of the emulated build: one device, whose work is done when the call that asks for it returns.
#include "../../cuda/runtime.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "../../tensor/error.h"
#include "../../tensor/text.h"
#include "counters.h"
#include "cuda.h"
#include "memory.h"

namespace mezzo::emulator {

Counters& counters() {
  static Counters only;
  return only;
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
  std::vector<std::function<void()>> work;
};

std::unique_ptr<Recording>& recording() {
  static std::unique_ptr<Recording> only;
  return only;
}

void do_or_keep(std::function<void()> work) {
  if (recording())
    recording()->work.push_back(std::move(work));
  else
    work();
}

}  // namespace

void submit(WorkName name, std::function<void()> work) {
  do_or_keep([name, work = std::move(work)] {
    ++counters().launches;
    if (open_log) open_log->names.push_back(text_of(name));
    work();
  });
}

}  // namespace mezzo::emulator

namespace mezzo::gpu::runtime {

using namespace mezzo::emulator;

namespace {

/** A stream holds nothing, since nothing ever waits. */
struct EmulatedStream {};

struct EmulatedEvent {
  std::chrono::steady_clock::time_point time;
};

/** What waits for a stream breaks its capture. */
void refuse_in_capture(const char* call, Place place) {
  if (recording())
    fail<CudaError>(call, {.what = "operation not permitted when stream is capturing",
                           .hint = str("called at ", place.file, ":", place.line)});
}

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
void synchronize(Stream, Place place) {
  refuse_in_capture("cudaStreamSynchronize", place);
  ++counters().synchronisations;
}

void copy(void* to, const void* from, std::size_t bytes, Stream, Place) {
  do_or_keep([=] {
    ++counters().copies;
    const MemoryScope scope;
    std::memcpy(to, from, bytes);
  });
}

Event create_event(Place) { return new EmulatedEvent; }
void destroy_event(Event event) noexcept { delete static_cast<EmulatedEvent*>(event); }
void record(Event event, Stream, Place) {
  static_cast<EmulatedEvent*>(event)->time = std::chrono::steady_clock::now();
}
void wait(Stream, Event, Place) {}
void synchronize_event(Event, Place place) {
  refuse_in_capture("cudaEventSynchronize", place);
  ++counters().synchronisations;
}
bool reached(Event, Place) { return true; }
float elapsed(Event begin, Event end, Place) {
  const auto span = static_cast<EmulatedEvent*>(end)->time - static_cast<EmulatedEvent*>(begin)->time;
  return std::chrono::duration<float, std::milli>(span).count();
}

void begin_capture(Stream, Place place) {
  refuse_in_capture("cudaStreamBeginCapture", place);
  recording() = std::make_unique<Recording>();
}
Graph end_capture(Stream, Place) { return recording().release(); }
void abandon_capture(Stream) noexcept { recording().reset(); }
void launch_graph(Graph graph, Stream, Place place) {
  refuse_in_capture("cudaGraphLaunch", place);
  ++counters().graph_launches;
  for (const auto& work : static_cast<Recording*>(graph)->work) work();
}
void destroy_graph(Graph graph) noexcept { delete static_cast<Recording*>(graph); }

void check_launch(Place) {}

}  // namespace mezzo::gpu::runtime
