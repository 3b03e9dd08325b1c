// The CUDA runtime of the emulated build: two devices whose work is done when a call returns, or
// later within a LateWork scope.
#include "../../cuda/runtime/runtime.h"

#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "../../cuda/runtime/failed_call.h"
#include "../../cuda/runtime/shared_memory.h"
#include "../../tensor/core/error.h"
#include "../../tensor/text/text.h"
#include "capability.h"
#include "counters.h"
#include "cuda.h"
#include "faults.h"
#include "fill.h"
#include "memory.h"
#include "streams.h"

namespace mezzo::emulator {

namespace {
int capability = 90;
}

void set_compute_capability(int value) { capability = value; }

namespace {
std::int64_t blocks_together = 24;
}  // namespace

std::int64_t resident_block_limit() {
  return DryRun::is_on() && blocks_together > 0 ? kMultiprocessors : blocks_together;
}
void set_resident_blocks(std::int64_t blocks) { blocks_together = blocks; }

namespace {
std::string broken_by;  // empty while the devices work
}

void break_devices(const std::string& what) { broken_by = what; }
void mend_devices() {
  broken_by.clear();
  gpu::forget_broken_device();
}

namespace {
void require_unbroken(const char* call, CallPlace place) {
  if (!broken_by.empty()) gpu::fail_call(call, broken_by, true, place);
}
}  // namespace

Counters& counters() {
  static Counters only;
  return only;
}

std::vector<std::string>& ranges() {
  static thread_local std::vector<std::string> all;
  return all;
}

namespace {

LaunchLog* open_launch_log = nullptr;

/** Returns a name such as "softmax.cu:40". */
std::string text_of(WorkName name) {
  const std::string_view path = name.what;
  const std::string_view file = path.substr(path.rfind('/') + 1);
  return name.line == 0 ? std::string(file) : str(file, ":", name.line);
}

}  // namespace

LaunchLog::LaunchLog() : outer_(std::exchange(open_launch_log, this)) {}
LaunchLog::~LaunchLog() { open_launch_log = outer_; }

namespace {

/** Captured work in order, and the state of its capture. */
struct Recording {
  const Stream* stream = nullptr;
  std::thread::id thread;
  bool is_broken = false;  // by a call that is not permitted during a capture
  std::vector<std::function<void()>> work;
};

thread_local int in_use = 0;

/** Checks that the stream belongs to the current device, as kernels and events require. */
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

/** Returns true if work of the stream is being captured. */
bool records(const void* stream) { return recording() && recording()->stream == stream; }

/** Throws if `breaks`, and marks the capture as broken, as the driver does: it then rejects all
 *  further captured work. */
void refuse_in_capture(const char* call, bool breaks, CallPlace place,
                       const char* why = "operation not permitted when stream is capturing") {
  if (!breaks) return;
  recording()->is_broken = true;
  fail<CudaError>(call, {.what = why, .hint = str("called at ", place.file, ":", place.line)});
}

/** Throws for work in the legacy stream during a capture. No stream of Mezzo waits for the legacy
 *  stream, so its work would be missing from the replays. */
void refuse_legacy_in_capture(const char* call, const void* stream, CallPlace place) {
  refuse_in_capture(call,
                    !stream && recording() && recording()->thread == std::this_thread::get_id(),
                    place, "work for the legacy stream while another stream is capturing");
}

void do_or_keep(void* stream, std::function<void()> work) {
  if (!records(stream)) return put(static_cast<Stream*>(stream), std::move(work));
  if (recording()->is_broken)
    fail<CudaError>("kernel launch",
                    {.what = "operation failed due to a previous error during capture"});
  recording()->work.push_back(std::move(work));
}

}  // namespace

namespace {
/** Bytes of dynamic shared memory that the thread's next launch may have. A driver allows them to
 * all later launches of the kernel. */
thread_local std::size_t allowed_shared = kSharedLimit;
}  // namespace

void require_launchable(WorkName name, Index3 grid, Index3 block, std::size_t dynamic_shared) {
  constexpr unsigned kMostBlocks = 0x7FFFFFFF, kMostRows = 65535, kMostThreads = 1024,
                     kMostThreadsZ = 64;
  const auto refuse = [&](const char* what) {
    fail<CudaError>(
        "kernel launch",
        {.what = what,
         .got = str("blocks ", grid.x, " x ", grid.y, " x ", grid.z, ", threads ", block.x, " x ",
                    block.y, " x ", block.z, ", ", dynamic_shared, " bytes of shared memory"),
         .hint = str("called at ", name.what, ":", name.line)});
  };
  const auto in = [](unsigned count, unsigned most) { return count > 0 && count <= most; };
  if (!in(grid.x, kMostBlocks) || !in(grid.y, kMostRows) || !in(grid.z, kMostRows) ||
      !in(block.x, kMostThreads) || !in(block.y, kMostThreads) || !in(block.z, kMostThreadsZ) ||
      std::uint64_t{block.x} * block.y * block.z > kMostThreads)
    refuse("invalid configuration argument");
  if (dynamic_shared > std::exchange(allowed_shared, kSharedLimit)) refuse("invalid argument");
}

void require_resident(WorkName name, unsigned blocks) {
  const std::int64_t most = resident_block_limit();
  if (blocks > most)
    fail<CudaError>("cudaLaunchCooperativeKernel",
                    {.what = "too many blocks in cooperative launch",
                     .got = str(blocks, " blocks"),
                     .expected = str("at most ", most),
                     .hint = str("called at ", name.what, ":", name.line)});
}

void submit(WorkName name, std::function<void()> work) {
  require_unbroken("kernel launch", {name.what, name.line});
  require_in_use("kernel launch", static_cast<const Stream*>(name.stream));
  refuse_legacy_in_capture("kernel launch", name.stream, {name.what, name.line});
  do_or_keep(name.stream, [name, work = std::move(work)] {
    ++counters().launches;
    if (open_launch_log) open_launch_log->names.push_back(text_of(name));
    if (name.line == 0 && DryRun::is_on()) return;  // run_grid() skips kernels after logging them
    try {
      work();
    } catch (const Fault& fault) {
      throw Fault(str(text_of(name), ": ", fault.what()));
    }
  });
}

}  // namespace mezzo::emulator

namespace mezzo::gpu::runtime {

using namespace mezzo::emulator;

namespace {

emulator::Stream* stream_of(Stream handle) { return static_cast<emulator::Stream*>(handle); }
emulator::Event* event_of(Event handle) { return static_cast<emulator::Event*>(handle); }

}  // namespace

Discovery discover() { return {2, ""}; }

std::string description(int) {
  return str("a device emulated on the host, ", memory_size() >> 30, " GiB");
}

int compute_capability(int) { return emulator::capability; }

// Exported for programs with kernels of their own.
MZ_API void allow_shared(const void*, std::size_t bytes, Place place) {
  constexpr std::size_t kOfTuring = 64 << 10;
  if (bytes > (emulator::capability < 80 ? kOfTuring : emulator::kMostShared))
    fail_call("cudaFuncSetAttribute", "invalid argument", false, place);
  emulator::allowed_shared = bytes;
}

void use(int device, Place) { in_use = device; }

void* allocate(int, std::size_t bytes, Place place) {
  require_unbroken("cudaMalloc", place);
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

// Deferred work still uses its blocks, and a dry run touches none.
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
void synchronize(Stream stream, Place place) {
  require_unbroken("cudaStreamSynchronize", place);
  refuse_in_capture("cudaStreamSynchronize", records(stream), place);
  ++counters().synchronisations;
  drain(stream_of(stream));
}
void synchronize_device(int device, Place place) {
  require_unbroken("cudaDeviceSynchronize", place);
  refuse_in_capture("cudaDeviceSynchronize",
                    recording() && device_of(recording()->stream) == device, place);
  ++counters().synchronisations;
  drain_device(device);
}
bool is_idle(Stream stream, Place place) {
  refuse_in_capture("cudaStreamQuery", records(stream), place);
  return is_drained(stream_of(stream));
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

bool is_pageable(const void* address) {
  return !is_device_memory(address) && !is_pinned_memory(address);
}

}  // namespace

// A device that shares page tables with the host may read pageable memory as late as pinned memory.
void copy(void* to, const void* from, std::size_t bytes, Stream stream, Place place) {
  require_unbroken("cudaMemcpyAsync", place);
  refuse_legacy_in_capture("cudaMemcpyAsync", stream, place);
  refuse_in_capture("cudaMemcpyAsync", records(stream) && (is_pageable(from) || is_pageable(to)),
                    place, "copies of pageable memory are not captured");
  if (records(stream) || !LateWork::is_wanted() || is_device_memory(from))
    return do_or_keep(stream, [=] { copy_now(to, from, bytes); });
  const char* first = static_cast<const char*>(from);
  put(stream_of(stream), [=, then = std::vector<char>(first, first + bytes)] {
    if (std::memcmp(from, then.data(), bytes) != 0)
      throw Fault(str("cudaMemcpyAsync: host memory changed before its copy was done; called at ",
                      place.file, ":", place.line));
    copy_now(to, from, bytes);
  });
}

namespace {

void refuse_captured(const char* call, Event event, Place place) {
  if (!is_captured(event_of(event))) return;
  refuse_in_capture(call, recording() != nullptr, place);
  fail<CudaError>(
      call, {.what = "operation not permitted on an event last recorded in a capturing stream",
             .hint = str("called at ", place.file, ":", place.line)});
}

}  // namespace

Event create_event(bool timed, Place) { return make_event(timed); }
void destroy_event(Event event) noexcept { drop_event(event_of(event)); }
void record(Event event, Stream stream, Place) {
  require_in_use("cudaEventRecord", stream_of(stream));
  if (records(stream)) return place_captured(event_of(event));
  place(event_of(event), stream_of(stream));
}
// A stream that waits for captured work would join the capture, which Mezzo never intends.
void wait(Stream stream, Event event, Place place) {
  const bool captured = is_captured(event_of(event));
  refuse_in_capture("cudaStreamWaitEvent", recording() && records(stream) != captured, place,
                    "dependency between captured and other work");
  if (!captured) hold(stream_of(stream), event_of(event));
}
void synchronize_event(Event event, Place place) {
  refuse_captured("cudaEventSynchronize", event, place);
  ++counters().synchronisations;
  run_until(event_of(event));
}
bool reached(Event event, Place place) {
  refuse_captured("cudaEventQuery", event, place);
  return is_reached(event_of(event));
}
float elapsed(Event begin, Event end, Place place) {
  for (const Event event : {begin, end}) refuse_captured("cudaEventElapsedTime", event, place);
  for (const Event event : {begin, end})
    if (!is_timed(event_of(event)))
      fail<CudaError>("cudaEventElapsedTime",
                      {.what = "invalid resource handle",
                       .got = "an event that was created without timing",
                       .hint = str("called at ", place.file, ":", place.line)});
  return between(event_of(begin), event_of(end));
}

void begin_capture(Stream stream, Place place) {
  if (recording())
    fail<CudaError>("cudaStreamBeginCapture",
                    {.what = "the emulated devices capture one stream at a time",
                     .hint = str("called at ", place.file, ":", place.line)});
  recording() = std::make_unique<Recording>();
  recording()->stream = stream_of(stream);
  recording()->thread = std::this_thread::get_id();
}
Graph end_capture(Stream, Place place) {
  std::unique_ptr<Recording> captured = std::move(recording());
  if (captured->is_broken)
    fail<CudaError>("cudaStreamEndCapture",
                    {.what = "operation failed due to a previous error during capture",
                     .hint = str("called at ", place.file, ":", place.line)});
  return captured.release();
}
void abandon_capture(Stream) noexcept { recording().reset(); }
void launch_graph(Graph graph, Stream stream, Place place) {
  refuse_in_capture("cudaGraphLaunch", records(stream), place);
  ++counters().graph_launches;
  put(stream_of(stream), [graph] {
    for (const auto& work : static_cast<Recording*>(graph)->work) work();
  });
}
void destroy_graph(Graph graph) noexcept {
  drain_all();  // as in the driver, the graph finishes first
  delete static_cast<Recording*>(graph);
}

void push_range(const char* name) noexcept { ranges().emplace_back(name); }
void pop_range() noexcept { ranges().emplace_back(); }

// Exported for programs with kernels of their own.
MZ_API void refuse_launch(std::int64_t blocks, std::int64_t most, Place place) {
  fail_call("kernel launch", str("a grid of ", blocks, " blocks; expected at most ", most), false,
            place);
}

void recover(const char* call, Place place) { require_unbroken(call, place); }

void check_launch(Place) {}

std::int64_t resident_blocks(const void*, int, std::size_t, int, Place) {
  return resident_block_limit();
}

}  // namespace mezzo::gpu::runtime
