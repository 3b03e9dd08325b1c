#include "runtime.h"

#include <cuda_runtime.h>
#if __has_include(<nvtx3/nvToolsExt.h>)
#  include <nvtx3/nvToolsExt.h>
#endif

#include <fstream>
#include <sstream>
#include <utility>

#include "../../tensor/text/text.h"
#include "failed_call.h"
#include "shared_memory.h"

namespace mezzo::gpu::runtime {

namespace {

/** Returns true if the error is sticky: after an illegal address, for example, every later call
 *  fails. */
bool is_lasting() {
  cudaGetLastError();
  return cudaFree(nullptr) != cudaSuccess;
}

[[noreturn]] void fail_code(const char* call, cudaError_t code, Place place) {
  const std::string what = str(cudaGetErrorName(code), " (code ", static_cast<int>(code),
                               "): ", cudaGetErrorString(code));
  fail_call(call, what, is_lasting(), place);
}

void check(const char* call, cudaError_t code, Place place) {
  if (code != cudaSuccess) [[unlikely]]
    fail_code(call, code, place);
}

/** Evaluates the result of a query. "Not ready" is cleared, so that the next launch does not report
 *  it. */
bool is_ready(const char* call, cudaError_t code, Place place) {
  if (code == cudaErrorNotReady)
    cudaGetLastError();
  else
    check(call, code, place);
  return code == cudaSuccess;
}

cudaError_t select(int device) {
  thread_local int current = -1;
  if (device == current) return cudaSuccess;
  const cudaError_t code = cudaSetDevice(device);
  if (code == cudaSuccess) current = device;
  return code;
}

cudaStream_t handle(Stream stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t handle_of(Event event) { return static_cast<cudaEvent_t>(event); }

}  // namespace

// Without a driver the first call fails without setting `count`, and the error must be cleared.
Discovery discover() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count > 0) return {count, ""};
  cudaGetLastError();
  if (code == cudaErrorInsufficientDriver || code == cudaErrorStubLibrary)
    return {0, str("the NVIDIA driver is missing or older than CUDA ", CUDART_VERSION / 1000, ".",
                   CUDART_VERSION % 1000 / 10, " needs")};
  if (code == cudaErrorNoDevice || code == cudaSuccess) return {0, "the machine has no NVIDIA GPU"};
  return {0, cudaGetErrorString(code)};
}

namespace {

/** Returns the version of the driver and a space, as "570.86.15 "; empty where the system does not
 *  report it. */
std::string driver_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line, word;
  if (!std::getline(file, line)) return "";
  const auto is_version = [](const std::string& text) {
    return text.find('.') != std::string::npos &&
           text.find_first_not_of("0123456789.") == std::string::npos;
  };
  std::istringstream words(line);
  while (words >> word)
    if (is_version(word)) return word + " ";
  return "";
}

}  // namespace

std::string description(int device) {
  const Place place = Place::current();
  cudaDeviceProp properties{};
  int driver = 0;
  check("cudaGetDeviceProperties", cudaGetDeviceProperties(&properties, device), place);
  check("cudaDriverGetVersion", cudaDriverGetVersion(&driver), place);
  return str(static_cast<const char*>(properties.name), ", ", properties.totalGlobalMem >> 30,
             " GiB, sm_", properties.major, properties.minor, ", driver ", driver_version(),
             "for CUDA ", driver / 1000, ".", driver % 1000 / 10, ", CUDA ", CUDART_VERSION / 1000,
             ".", CUDART_VERSION % 1000 / 10);
}

int compute_capability(int device) {
  const Place place = Place::current();
  int major = 0, minor = 0;
  check("cudaDeviceGetAttribute",
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), place);
  check("cudaDeviceGetAttribute",
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), place);
  return 10 * major + minor;
}

void use(int device, Place place) { check("cudaSetDevice", select(device), place); }

void* allocate(int device, std::size_t bytes, Place place) {
  use(device, place);
  void* block = nullptr;
  const cudaError_t code = cudaMalloc(&block, bytes);
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  check("cudaMalloc", code, place);
  return block;
}

void deallocate(int device, void* block, std::size_t) noexcept {
  select(device);
  cudaFree(block);
  cudaGetLastError();
}

Memory memory(int device) {
  std::size_t free = 0, total = 0;
  if (select(device) != cudaSuccess || cudaMemGetInfo(&free, &total) != cudaSuccess)
    cudaGetLastError();
  return {static_cast<std::int64_t>(free), static_cast<std::int64_t>(total)};
}

void* allocate_pinned(std::size_t bytes, Place place) {
  void* block = nullptr;
  const cudaError_t code = cudaHostAlloc(&block, bytes, cudaHostAllocPortable);
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  check("cudaHostAlloc", code, place);
  return block;
}

void deallocate_pinned(void* block) noexcept {
  cudaFreeHost(block);
  cudaGetLastError();
}

void block_cached(void*, std::size_t) noexcept {}
void block_reused(void*, std::size_t, std::size_t) noexcept {}

// The stream must not synchronise with the legacy default stream, else it could not be captured.
Stream create_stream(int device, bool urgent, Place place) {
  use(device, place);
  int least = 0, greatest = 0;
  check("cudaDeviceGetStreamPriorityRange", cudaDeviceGetStreamPriorityRange(&least, &greatest),
        place);
  cudaStream_t stream = nullptr;
  check("cudaStreamCreateWithPriority",
        cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, urgent ? greatest : least),
        place);
  return stream;
}

void synchronize(Stream stream, Place place) {
  check("cudaStreamSynchronize", cudaStreamSynchronize(handle(stream)), place);
}

void synchronize_device(int device, Place place) {
  use(device, place);
  check("cudaDeviceSynchronize", cudaDeviceSynchronize(), place);
}

bool is_idle(Stream stream, Place place) {
  return is_ready("cudaStreamQuery", cudaStreamQuery(handle(stream)), place);
}

void copy(void* to, const void* from, std::size_t bytes, Stream stream, Place place) {
  check("cudaMemcpyAsync", cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, handle(stream)),
        place);
}

Event create_event(bool timed, Place place) {
  cudaEvent_t event = nullptr;
  check("cudaEventCreateWithFlags",
        cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming), place);
  return event;
}

void destroy_event(Event event) noexcept {
  cudaEventDestroy(handle_of(event));
  cudaGetLastError();
}

void record(Event event, Stream stream, Place place) {
  check("cudaEventRecord", cudaEventRecord(handle_of(event), handle(stream)), place);
}

void wait(Stream stream, Event event, Place place) {
  check("cudaStreamWaitEvent", cudaStreamWaitEvent(handle(stream), handle_of(event), 0), place);
}

void synchronize_event(Event event, Place place) {
  check("cudaEventSynchronize", cudaEventSynchronize(handle_of(event)), place);
}

bool reached(Event event, Place place) {
  return is_ready("cudaEventQuery", cudaEventQuery(handle_of(event)), place);
}

float elapsed(Event begin, Event end, Place place) {
  float milliseconds = 0;
  check("cudaEventElapsedTime",
        cudaEventElapsedTime(&milliseconds, handle_of(begin), handle_of(end)), place);
  return milliseconds;
}

// Relaxed mode: the driver may allocate memory during the capture, which does not affect the
// stream.
void begin_capture(Stream stream, Place place) {
  check("cudaStreamBeginCapture",
        cudaStreamBeginCapture(handle(stream), cudaStreamCaptureModeRelaxed), place);
}

Graph end_capture(Stream stream, Place place) {
  cudaGraph_t graph = nullptr;
  check("cudaStreamEndCapture", cudaStreamEndCapture(handle(stream), &graph), place);
  cudaGraphExec_t ready = nullptr;
  const cudaError_t code = cudaGraphInstantiate(&ready, graph, 0);
  cudaGraphDestroy(graph);
  check("cudaGraphInstantiate", code, place);
  return ready;
}

void abandon_capture(Stream stream) noexcept {
  cudaGraph_t graph = nullptr;
  if (cudaStreamEndCapture(handle(stream), &graph) == cudaSuccess && graph) cudaGraphDestroy(graph);
  cudaGetLastError();
}

void launch_graph(Graph graph, Stream stream, Place place) {
  check("cudaGraphLaunch", cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), handle(stream)),
        place);
}

void destroy_graph(Graph graph) noexcept {
  cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph));
  cudaGetLastError();
}

#if __has_include(<nvtx3/nvToolsExt.h>)

namespace {

nvtxDomainHandle_t domain() {
  static nvtxDomainHandle_t only = nvtxDomainCreateA("mezzo");
  return only;
}

}  // namespace

// Without a profiler both only test a pointer.
void push_range(const char* name) noexcept {
  nvtxEventAttributes_t range{};
  range.version = NVTX_VERSION;
  range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  range.messageType = NVTX_MESSAGE_TYPE_ASCII;
  range.message.ascii = name;
  nvtxDomainRangePushEx(domain(), &range);
}

void pop_range() noexcept { nvtxDomainRangePop(domain()); }

#else  // toolkits in wheel layout may lack NVTX

void push_range(const char*) noexcept {}
void pop_range() noexcept {}

#endif

std::int64_t resident_blocks(const void* kernel, int threads, std::size_t shared, int device,
                             Place place) {
  use(device, place);
  int cooperative = 0, processors = 0, blocks = 0;
  for (const auto& [value, attribute] : {std::pair{&cooperative, cudaDevAttrCooperativeLaunch},
                                         std::pair{&processors, cudaDevAttrMultiProcessorCount}})
    check("cudaDeviceGetAttribute", cudaDeviceGetAttribute(value, attribute, device), place);
  if (cooperative == 0) return 0;
  check("cudaOccupancyMaxActiveBlocksPerMultiprocessor",
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, shared), place);
  return std::int64_t{blocks} * processors;
}

void launch_together(const void* kernel, int blocks, int threads, std::size_t shared,
                     void** arguments, Stream stream, Place place) {
  check("cudaLaunchCooperativeKernel",
        cudaLaunchCooperativeKernel(kernel, dim3(static_cast<unsigned>(blocks)),
                                    dim3(static_cast<unsigned>(threads)), arguments, shared,
                                    handle(stream)),
        place);
}

void allow_shared(const void* kernel, std::size_t bytes, Place place) {
  check("cudaFuncSetAttribute",
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)),
        place);
}

void refuse_launch(std::int64_t blocks, std::int64_t most, Place place) {
  fail_call("kernel launch", str("a grid of ", blocks, " blocks; expected at most ", most), false,
            place);
}

void recover(const char* call, Place place) {
  cudaGetLastError();
  const cudaError_t code = cudaFree(nullptr);
  cudaGetLastError();
  check(call, code, place);
}

void check_launch(Place place) { check("kernel launch", cudaGetLastError(), place); }

}  // namespace mezzo::gpu::runtime
