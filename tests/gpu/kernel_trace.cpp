// KernelTrace. With MZ_CUPTI it uses the header of CUPTI and loads the library at run time.
#include <stdexcept>

#include "kernel_table.h"

#ifndef MZ_CUPTI

KernelTrace::KernelTrace() {
  throw std::runtime_error("this program was built without CUPTI; expected -Dcuda=enabled");
}
KernelTrace::~KernelTrace() = default;
KernelTable KernelTrace::finish() { return {}; }

#else

#  include <cupti.h>
#  include <dlfcn.h>

#  include <cstdio>
#  include <cstdlib>
#  include <mutex>

namespace {

/** The functions of CUPTI in use. */
struct Cupti {
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityFlushAll) flush = nullptr;
  decltype(&cuptiActivityGetNextRecord) next = nullptr;
  decltype(&cuptiActivityRegisterCallbacks) call_back = nullptr;

  static const Cupti& get() {
    static const Cupti loaded;
    return loaded;
  }

 private:
  Cupti() {
    void* library = nullptr;
    for (const char* name : {"libcupti.so.13", "libcupti.so.12", "libcupti.so"})
      if (!library) library = dlopen(name, RTLD_NOW);
    if (!library) throw std::runtime_error(std::string("CUPTI cannot be loaded: ") + dlerror());
    load(library, disable, "cuptiActivityDisable");
    load(library, enable, "cuptiActivityEnable");
    load(library, flush, "cuptiActivityFlushAll");
    load(library, next, "cuptiActivityGetNextRecord");
    load(library, call_back, "cuptiActivityRegisterCallbacks");
  }
  template <class Function> void load(void* library, Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (!function) throw std::runtime_error(std::string("CUPTI has no ") + name);
  }
};

void check_cupti(CUptiResult status, const char* call) {
  if (status != CUPTI_SUCCESS)
    throw std::runtime_error(std::string(call) + ": status " +
                             std::to_string(static_cast<int>(status)));
}

constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                         CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET};

// CUPTI calls back on a thread of its own.
std::mutex mutex;
KernelTable* table = nullptr;

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
  *bytes = std::size_t{8} << 20;
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, *bytes));
  *most_records = 0;
}

template <class Record> double nanoseconds(const Record& record) {
  return static_cast<double>(record.end - record.start);
}

void count_record(KernelTable& into, const CUpti_Activity& record) {
  char text[96] = "";
  if (record.kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    const auto& k = reinterpret_cast<const CUpti_ActivityKernel9&>(record);
    std::snprintf(text, sizeof text, " <%dx%dx%d,%d>", k.gridX, k.gridY, k.gridZ,
                  k.blockX * k.blockY * k.blockZ);
    into.add(k.name, text, nanoseconds(k), k.registersPerThread,
             std::int64_t{k.staticSharedMemory} + k.dynamicSharedMemory);
  } else if (record.kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpy5&>(record);
    std::snprintf(text, sizeof text, "[copy of kind %d, %.3g MB]", static_cast<int>(copy.copyKind),
                  static_cast<double>(copy.bytes) / 1e6);
    into.add(text, "", nanoseconds(copy), 0, 0);
  } else if (record.kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    const auto& fill = reinterpret_cast<const CUpti_ActivityMemset4&>(record);
    std::snprintf(text, sizeof text, "[fill, %.3g MB]", static_cast<double>(fill.bytes) / 1e6);
    into.add(text, "", nanoseconds(fill), 0, 0);
  }
}

void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t,
                          std::size_t bytes) {
  {
    const std::lock_guard lock(mutex);
    CUpti_Activity* record = nullptr;
    while (table && Cupti::get().next(buffer, bytes, &record) == CUPTI_SUCCESS)
      count_record(*table, *record);
  }
  std::free(buffer);
}

}  // namespace

KernelTrace::KernelTrace() {
  const Cupti& cupti = Cupti::get();
  static const bool once = [&] {
    check_cupti(cupti.call_back(give_buffer, take_buffer), "cuptiActivityRegisterCallbacks");
    return true;
  }();
  static_cast<void>(once);
  for (const CUpti_ActivityKind kind : kKinds)
    check_cupti(cupti.enable(kind), "cuptiActivityEnable");
  check_cupti(cupti.flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll");
  const std::lock_guard lock(mutex);
  table = new KernelTable;
}

KernelTrace::~KernelTrace() {
  if (running_) finish();
}

KernelTable KernelTrace::finish() {
  running_ = false;
  const Cupti& cupti = Cupti::get();
  cupti.flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  for (const CUpti_ActivityKind kind : kKinds) cupti.disable(kind);
  const std::lock_guard lock(mutex);
  KernelTable found = std::move(*table);
  delete table;
  table = nullptr;
  return found;
}

#endif
