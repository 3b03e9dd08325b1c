#include "backend.h"

#include <atomic>
#include <mutex>

#include "../../cuda/register.h"
#include "../core/error.h"

namespace mezzo {

namespace {
std::atomic<const Backend*> backends[kNumDeviceKinds];
}  // namespace

AsyncRead::~AsyncRead() = default;
RecordedWork::~RecordedWork() = default;

const Backend* find_backend(DeviceKind kind) {
  static std::once_flag started;
  if (kind == DeviceKind::cpu) return nullptr;
  std::call_once(started, gpu::register_cuda_kernels);
  return backends[static_cast<int>(kind)].load(std::memory_order_acquire);
}

const Backend& require_cuda(std::string_view op, const std::string& got) {
  const Backend* backend = find_backend(DeviceKind::cuda);
  if (!backend)
    fail<DeviceError>(op, {.what = "this build has no CUDA kernels",
                           .got = got,
                           .expected = "\"cpu\"",
                           .hint = "configure with -Dcuda=enabled"});
  if (backend->device_count() == 0)
    fail<DeviceError>(op, {.what = "no CUDA device can be used: " + backend->absence(),
                           .got = got,
                           .expected = "\"cpu\""});
  return *backend;
}

void set_backend(DeviceKind kind, const Backend* backend) {
  backends[static_cast<int>(kind)].store(backend, std::memory_order_release);
}

}  // namespace mezzo
