#include "dnn.h"

#include <memory>
#include <mutex>
#include <unordered_map>

#include "../tensor/numerics.h"
#include "../tensor/text.h"
#include "dnn_plan.h"
#include "key.h"
#include "lines.h"

namespace mezzo::gpu::dnn {

namespace {

/** What a plan depends on. */
using Key = std::vector<std::int64_t>;

Key key_of(const Convolution& c) {
  const op::ConvGeometry& g = c.geometry;
  Key key{static_cast<std::int64_t>(c.x.dtype),
          static_cast<std::int64_t>(c.wanted),
          c.dims,
          static_cast<std::int64_t>(c.format),
          c.x.batch,
          c.x.channels,
          c.y.channels,
          g.groups,
          c.bias ? 1 : 0,
          allow_tf32() ? 1 : 0,
          allow_nondeterministic() ? 1 : 0};
  for (const op::Extent& extent : {g.in, g.out, g.kernel, g.stride, g.dilation, g.pad})
    key.insert(key.end(), extent.begin(), extent.end());
  for (const void* data : {c.x.data, c.y.data, c.weight, c.bias}) key.push_back(alignment(data));
  return key;
}

/** Handle and plans of a device. */
class DeviceState {
 public:
  explicit DeviceState(Device device) : device_(device) {
    check(Library::get().cudnnCreate(&handle_), "cudnnCreate");
  }

  bool run(const Convolution& c, runtime::Stream stream) {
    const std::lock_guard lock(mutex_);
    const auto [entry, fresh] = plans_.try_emplace(key_of(c));
    if (fresh) entry->second = plan(c, {.handle = handle_});
    if (!entry->second) return false;
    execute(*entry->second, c, stream);
    return true;
  }

 private:
  void execute(const Plan& plan, const Convolution& c, runtime::Stream stream) {
    std::vector<std::int64_t> names{kX, kWeight, kY};
    std::vector<void*> arrays{const_cast<void*>(c.x.data), const_cast<void*>(c.weight),
                              const_cast<void*>(c.y.data)};
    if (c.bias) {
      names.push_back(kBias);
      arrays.push_back(const_cast<void*>(c.bias));
    }
    const Tensor room = plan.workspace > 0 ? workspace(plan.workspace, device_) : Tensor{};
    Descriptor arguments(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    arguments.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, names);
    arguments.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, arrays);
    arguments.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, room.defined() ? room.raw_data() : nullptr);
    check(arguments.finalize() ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED, "cudnnBackendFinalize");
    const Library& library = Library::get();
    check(library.cudnnSetStream(handle_, static_cast<cudaStream_t>(stream)), "cudnnSetStream");
    check(library.cudnnBackendExecute(handle_, plan.engine.handle(), arguments.handle()),
          "cudnnBackendExecute");
  }

  Device device_;
  cudnnHandle_t handle_ = nullptr;
  std::mutex mutex_;
  std::unordered_map<Key, std::optional<Plan>, KeyHash> plans_;
};

DeviceState& state_of(Device device) {
  static std::mutex mutex;
  static auto& all =
      *new std::vector<std::unique_ptr<DeviceState>>;  // never destroyed: tensors may outlive main
  const std::lock_guard lock(mutex);
  const auto index = static_cast<std::size_t>(device.index);
  if (all.size() <= index) all.resize(index + 1);
  if (!all[index]) all[index] = std::make_unique<DeviceState>(device);
  return *all[index];
}

}  // namespace

bool convolve(const Convolution& convolution, Device device, runtime::Stream stream) {
  return Library::get().usable() && state_of(device).run(convolution, stream);
}

std::string description() {
  const Library& library = Library::get();
  return library.usable() ? str("cuDNN ", library.version()) : library.missing();
}

}  // namespace mezzo::gpu::dnn
