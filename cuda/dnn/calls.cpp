#include "calls.h"

#include <limits>
#include <mutex>

#include "../../tensor/text/text.h"
#include "../kernels/host_lines.h"
#include "../kernels/shape/copy.h"
#include "../runtime/device.h"
#include "plan.h"

namespace mezzo::gpu::dnn {

namespace {

/** The library's handle for a device; used by one call at a time. */
struct Session {
  Session() { check(Library::get().cudnnCreate(&handle), "cudnnCreate"); }

  cudnnHandle_t handle = nullptr;
  std::mutex mutex;
};

/** Operands of a plan: addresses by array id. Host addresses are read before execution returns. */
class CallOperands {
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

void execute(const Plan& plan, const CallOperands& operands, Device device,
             runtime::Stream stream) {
  const Tensor room = plan.workspace > 0 ? workspace(plan.workspace, device) : Tensor{};
  Descriptor arguments(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  arguments.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, operands.names());
  arguments.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, operands.addresses());
  arguments.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, room.defined() ? room.raw_data() : nullptr);
  check(arguments.finalize() ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED,
        "cudnnBackendFinalize");
  const Library& library = Library::get();
  Session& session = per_device<Session>(device);
  const std::lock_guard lock(session.mutex);
  check(library.cudnnSetStream(session.handle, static_cast<cudaStream_t>(stream)),
        "cudnnSetStream");
  check(library.cudnnBackendExecute(session.handle, plan.engine.handle(), arguments.handle()),
        "cudnnBackendExecute");
}

template <class Problem>
std::optional<Choice> find_plan_of(const Problem& problem, Device device, int first) {
  Session& session = per_device<Session>(device);
  const std::lock_guard lock(session.mutex);
  std::optional<Plan> found = plan(problem, {.handle = session.handle}, first);
  if (!found) return std::nullopt;
  const int index = found->index;
  const bool last_resort = found->last_resort;
  return Choice{std::make_shared<const Plan>(std::move(*found)), index, last_resort};
}

}  // namespace

bool takes(const Convolution& c) { return Library::get().usable() && sizes_follow(c.geometry); }

bool takes(const Attention&) {
  // Older versions could read out of bounds for gradients in a captured step if the number of keys
  // is not a multiple of 128.
  constexpr std::size_t kOldest = 91600;
  const Library& library = Library::get();
  return library.usable() && library.cudnnGetVersion() >= kOldest;
}

std::optional<Choice> find_plan(const Convolution& c, Device device, int first) {
  return find_plan_of(c, device, first);
}
std::optional<Choice> find_plan(const Attention& a, Device device, int first) {
  return find_plan_of(a, device, first);
}

void execute(const Plan& plan, const Convolution& c, Device device, runtime::Stream stream) {
  CallOperands operands;
  operands.add(kX, c.x.data);
  operands.add(kWeight, c.weight);
  operands.add(kY, c.y.data);
  if (c.bias) operands.add(kBias, c.bias);
  execute(plan, operands, device, stream);
}

// Masked scores are -infinity, as in cudnn-frontend from cuDNN 9.10 on (`takes` requires 9.16); for
// older versions it takes the lowest float.
void execute(const Plan& plan, const Attention& a, Device device, runtime::Stream stream) {
  const float scale = static_cast<float>(a.scale), offset_factor = 1,
              keep_factor = static_cast<float>(1 / a.keep_probability),
              masked = -std::numeric_limits<float>::infinity();
  CallOperands operands;
  operands.add(kQ, a.q.data);
  operands.add(kK, a.k.data);
  operands.add(kV, a.v.data);
  operands.add(kY, a.y.data);
  operands.add(kLogSums, a.log_sums);
  operands.add(kScale, &scale);
  if (a.is_causal) operands.add(kMasked, &masked);
  if (a.bias.exists()) operands.add(kScoreBias, a.bias.data);
  if (a.drops) {
    operands.add(kKept, a.kept);
    operands.add(kKeepFactor, &keep_factor);
  }
  Tensor offsets, sums;
  if (a.wanted == Attention::Wanted::gradients) {
    offsets = workspace(a.entries * a.heads * a.queries * std::int64_t{sizeof(float)}, device);
    operands.add(kOffsets, offsets.raw_data());
    if (!a.repeats) {
      sums = workspace(a.entries * a.heads * a.queries * a.features * std::int64_t{sizeof(float)},
                       device);
      fill_elements(sums, 0);
      operands.add(kDqSums, sums.raw_data());
    }
    operands.add(kG, a.g.data);
    operands.add(kDq, a.dq.data);
    operands.add(kDk, a.dk.data);
    operands.add(kDv, a.dv.data);
    operands.add(kOffsetFactor, &offset_factor);
  }
  execute(plan, operands, device, stream);
}

std::int64_t most_score_bytes() { return kMostScoreBytes; }

std::string description() {
  const Library& library = Library::get();
  return library.usable() ? str("cuDNN ", library.version()) : library.missing();
}

}  // namespace mezzo::gpu::dnn
