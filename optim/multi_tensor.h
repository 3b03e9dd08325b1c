// Kernels that work on lists of tensors in one pass over memory: the interface that the CPU and the GPU room implement.
// Sees: tensor.
// Read next: updates/update.h (the optimizers' formulas), multi_tensor.cpp (packing), updates_cpu.cpp, lists_cpu.cpp (the CPU kernels).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "../tensor/tensor.h"
#include "bad_value.h"
#include "factor.h"

namespace mezzo::optim {

/** One tensor of each list, dense and of one size, on one device. */
struct MZ_API MultiItem {
  static constexpr std::size_t kMaxLists = 6;
  std::array<void*, kMaxLists> data{};  // null where the item has no tensor in that list
  std::array<DType, kMaxLists> dtype{};
  std::int64_t numel = 0;
  std::size_t index =
      0;  // place in the list that was given, or what its caller knows it by: items without elements are left out
};

/** Elements per unit of work, counted from each tensor's start: how work is cut depends on the sizes alone. */
inline constexpr std::int64_t kMultiTensorChunk = 65536;

// ---- optimizer updates ------------------------------------------------------------------------------------------------

/** Places of an update's tensors in a MultiItem. */
enum UpdateList : std::uint8_t { kParam, kGrad, kLowCopy, kState };
inline constexpr std::size_t kMaxStates = MultiItem::kMaxLists - kState;

/** What holds for a whole step. */
struct UpdateCall {
  Factor inv_scale = 1;  // gradients are multiplied by it, in f32 (f64 for f64), before anything else
  const float* found_inf =
      nullptr;              // on the device of the lists; where it points to anything but 0, nothing changes
  bool write_back = false;  // leaves the multiplied gradients behind
  Device device = cpu;      // of the lists; run_update sets it
};

/** Runs an update over all items; `settings` is an array of the update's Settings, one per item. Parameters may be f16, bf16, f32 or f64,
 *  gradients too; states are in the parameter's compute dtype. Each result is rounded once into the parameter and once into the low copy. */
using UpdateKernel = void (*)(std::span<const MultiItem> items, const void* settings, const UpdateCall& call);

/** One optimizer update and its kernels. */
struct MZ_API UpdateRow {
  std::string_view name;
  unsigned writes = 0;  // bit i: list i is written
  std::array<UpdateKernel, kNumDeviceKinds> kernel{};
};

/** The tensors of one parameter's update. */
struct MZ_API UpdateTensors {
  Tensor param;
  Tensor grad;
  Tensor low_copy;  // may be undefined
  std::array<Tensor, kMaxStates> state;
};

/** Packs, checks and runs. `settings` has one entry of `settings_bytes` per tensor. Tensors without elements are left out; those of an item that do
 *  not all lie alike go through row-major copies, with the same results. Bumps the version counters of what was written.
 *  Errors: ShapeError, DtypeError, DeviceError, Unsupported; nothing is written then. */
MZ_API void run_update(const UpdateRow& row, std::span<const UpdateTensors> tensors, const void* settings,
                       std::size_t settings_bytes, const UpdateCall& call = {});

/** The same in two steps: whatever takes memory comes before the first of several passes has
 *  written anything. */
class MZ_API PreparedUpdate {
 public:
  /** `settings` are copied. Errors: as run_update. */
  PreparedUpdate(const UpdateRow& row, std::span<const UpdateTensors> tensors, const void* settings,
                 std::size_t settings_bytes, const UpdateCall& call = {});
  ~PreparedUpdate();
  PreparedUpdate(const PreparedUpdate&) = delete;
  PreparedUpdate& operator=(const PreparedUpdate&) = delete;
  void run() const;

 private:
  struct Work;
  std::unique_ptr<Work> work_;
};

// ---- list arithmetic --------------------------------------------------------------------------------------------------

/** Which operands an axpby looks through for infinities and NaNs. */
enum class CheckFinite : std::uint8_t { none, x, y, either };

/** One item of axpby; y may be undefined and then counts as absent, not as zero. `out` may be x or y. */
struct MZ_API AxpbyTensors {
  Tensor x, y, out;
  std::uint32_t number = 0;  // what a BadValue knows it by
};

/** Where it is noted, on the device of the tensors, that values are not finite; both may be undefined. */
struct MZ_API FoundInf {
  Tensor flag;   // f32, one element: becomes 1
  Tensor first;  // i64, one element: becomes the first one's BadValue, unless that of an earlier one is less
};

/** out = a x + b y for every item, or a x without a y; in f32 (f64 where out is f64), products and sum rounded one by one, the result once
 *  into out. Where a checked value is not finite, that is noted in `found`; the values are written all the same. A factor of 1 leaves every
 *  value as it is. Errors: ShapeError, DeviceError; nothing is written then. */
MZ_API void axpby(std::span<const AxpbyTensors> items, const Factor& a, const Factor& b, CheckFinite check,
                  const FoundInf& found);

/** Notes in `found` where an x is not finite; writes nothing else. Errors: DeviceError. */
MZ_API void check_finite(std::span<const AxpbyTensors> items, const FoundInf& found);

struct NormOptions {
  double p = 2;           // p > 0; infinity gives the largest magnitude
  Factor inv_scale = 1;   // every element is multiplied by it first, in f32 (f64 for f64)
  Tensor found_inf = {};  // f32, one element: becomes 1 where the norm of everything is not finite
};

/** Norms of a list of tensors, each f64 and on their device: they may stay there. */
struct MZ_API Norms {
  Tensor total;  // 0-dim: of all elements of all tensors taken together; 0 for an empty list
  Tensor each;   // one per tensor, 0 for one without elements
};

/** p-norms. Infinities and NaNs propagate. Precision: powers and sums in f64, added in an order that depends on the sizes alone.
 *  Errors: DtypeError, ValueError, DeviceError for tensors on several devices. */
MZ_API Norms norms(std::span<const Tensor> tensors, const NormOptions& options = {});
/** The same in two steps, as PreparedUpdate. */
class MZ_API PreparedNorms {
 public:
  explicit PreparedNorms(std::span<const Tensor> tensors, const NormOptions& options = {});
  ~PreparedNorms();
  PreparedNorms(const PreparedNorms&) = delete;
  PreparedNorms& operator=(const PreparedNorms&) = delete;
  /** Where the norms will be: zeros until run(). */
  const Norms& result() const;
  void run() const;

 private:
  struct Work;
  std::unique_ptr<Work> work_;
};

/** norms(tensors, options).total, as f32, or as f64 if any tensor is. */
MZ_API Tensor total_norm(std::span<const Tensor> tensors, const NormOptions& options = {});

/** What the kernels of list arithmetic are called with. */
struct AxpbyCall {
  Factor a, b;
  CheckFinite check;
  float* found_inf;       // may be null
  BadValue::Word* first;  // may be null
  Device device;
};
struct NormCall {
  double p;
  Factor inv_scale;
  double* total;     // overwritten, as are
  double* each;      // each[item.index]
  float* found_inf;  // may be null
  Device device;
  void* room;  // of norm_room() bytes
};

/** The kernels of list arithmetic of one kind of device. Lists are in the order x, y, out, and x alone for the norm. Without `out`, axpby only
 *  looks for what is not finite. */
struct MZ_API ListKernels {
  void (*axpby)(std::span<const MultiItem> items, const AxpbyCall& call) = nullptr;
  void (*norm)(std::span<const MultiItem> items, const NormCall& call) = nullptr;
  /** Memory that norm() needs for its sums, in bytes; null where it needs none. */
  std::int64_t (*norm_room)(std::span<const MultiItem> items) = nullptr;
};
MZ_API ListKernels& list_kernels(DeviceKind kind);

}  // namespace mezzo::optim
