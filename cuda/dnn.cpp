#include "dnn.h"

#include <limits>
#include <mutex>
#include <unordered_map>

#include "../tensor/numerics.h"
#include "../tensor/text.h"
#include "dnn_plan.h"
#include "key.h"
#include "lines.h"
#include "per_device.h"

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

/** Operands of a plan: addresses by name. Those of the host are read before execution returns. */
class Operands {
 public:
  void add(std::int64_t name, const void* address) {
    names_.push_back(name);
    addresses_.push_back(const_cast<void*>(address));
  }
  const std::vector<std::int64_t>& names() const { return names_; }
  const std::vector<void*>& addresses() const { return addresses_; }

 private:
  std::vector<std::int64_t> names_;
  std::vector<void*> addresses_;
};

/** Handle and plans of a device. */
class DeviceState {
 public:
  explicit DeviceState(Device device) : device_(device) {
    check(Library::get().cudnnCreate(&handle_), "cudnnCreate");
  }

  /** Runs the plan for a problem, which is made where its key is new. False where there is none. */
  template <class Problem>
  bool run(const Problem& problem, const Key& key, const Operands& operands, runtime::Stream stream) {
    const std::lock_guard lock(mutex_);
    const auto [entry, fresh] = plans_.try_emplace(key);
    if (fresh) entry->second = plan(problem, {.handle = handle_});
    if (!entry->second) return false;
    execute(*entry->second, operands, stream);
    return true;
  }

 private:
  void execute(const Plan& plan, const Operands& operands, runtime::Stream stream) {
    const Tensor room = plan.workspace > 0 ? workspace(plan.workspace, device_) : Tensor{};
    Descriptor arguments(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    arguments.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, operands.names());
    arguments.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, operands.addresses());
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

}  // namespace

bool convolve(const Convolution& c, Device device, runtime::Stream stream) {
  if (!Library::get().usable()) return false;
  Operands operands;
  operands.add(kX, c.x.data);
  operands.add(kWeight, c.weight);
  operands.add(kY, c.y.data);
  if (c.bias) operands.add(kBias, c.bias);
  return per_device<DeviceState>(device, device).run(c, key_of(c), operands, stream);
}

bool attend(const Attention& a, Device device, runtime::Stream stream) {
  // Before that gradients of a number of keys that is no multiple of 128 could read beyond them in a captured step.
  constexpr std::size_t kOldest = 91600;
  const Library& library = Library::get();
  if (!library.usable() || library.cudnnGetVersion() < kOldest) return false;
  const float scale = static_cast<float>(a.scale), one = 1, masked = -std::numeric_limits<float>::infinity();
  const bool gradients = a.wanted == Attention::Wanted::gradients;
  Operands operands;
  operands.add(kQ, a.q.data);
  operands.add(kK, a.k.data);
  operands.add(kV, a.v.data);
  operands.add(kY, a.y);
  operands.add(kLogSums, a.log_sums);
  operands.add(kScale, &scale);
  if (a.is_causal) operands.add(kMasked, &masked);
  Tensor offsets;
  if (gradients) {
    offsets = workspace(a.entries * a.heads * a.queries * std::int64_t{sizeof(float)}, device);
    operands.add(kOffsets, offsets.raw_data());
    operands.add(kG, a.g.data);
    operands.add(kDq, a.dq);
    operands.add(kDk, a.dk);
    operands.add(kDv, a.dv);
    operands.add(kOne, &one);
  }
  return per_device<DeviceState>(device, device).run(a, a.kind(), operands, stream);
}

std::int64_t most_score_gradients() { return kMostScoreGradients; }

std::string description() {
  const Library& library = Library::get();
  return library.usable() ? str("cuDNN ", library.version()) : library.missing();
}

}  // namespace mezzo::gpu::dnn
