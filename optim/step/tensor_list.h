// Multi-tensor kernels, which process lists of tensors in one pass over memory: the kernel
// interface and the host functions.
// See also: ../updates/update.h (the optimizers' formulas), updates_cpu.cpp and lists_cpu.cpp (CPU
// kernels).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "../../tensor/core/tensor.h"
#include "step_record.h"

namespace mezzo::optim {

// ---- factors ------------------------------------------------------------------------------------

/** Returns the factor that reduces a gradient's norm to max_norm. Do not apply it if it is 1 or
 *  more. */
MZ_HD constexpr double clip_factor(double norm, double max_norm) {
  return max_norm / (norm + 1e-6);
}

/** Returns the norm that decides about clipping: rounded to f32, if that holds it. */
MZ_HD inline double clipping_norm(double norm, bool is_f32) {
  const bool rounds = is_f32 && norm < 0x1.ffffffp127;  // above, its f32 is infinite
  return rounds ? static_cast<double>(static_cast<float>(norm)) : norm;
}

/** number * *numerator / *divisor, times the clip factor of *norm. Pointers refer to memory of the
 *  device that multiplies, which avoids a host sync. */
struct Factor {
  double number = 1;
  const double* numerator = nullptr;  // null: 1
  const double* divisor = nullptr;    // null: 1
  const double* norm = nullptr;       // null: no clipping
  double max_norm = 0;                // the norm is clipped to this
  bool norm_is_f32 = true;            // round the norm to f32 first

  constexpr Factor(double value = 1) : number(value) {}  // NOLINT: implicit on purpose
  /** Returns number / *divisor. */
  static constexpr Factor over(double number, const double* divisor) {
    Factor factor(number);
    factor.divisor = divisor;
    return factor;
  }

  /** Returns *numerator / *divisor. */
  static constexpr Factor ratio(const double* numerator, const double* divisor) {
    Factor factor = over(1, divisor);
    factor.numerator = numerator;
    return factor;
  }

  /** Returns true if the value needs no device memory. */
  constexpr bool is_number() const { return !divisor && !norm; }

  /** Returns the value; call it where the pointers can be read. */
  MZ_HD double value() const {
    const double whole = numerator ? number * *numerator : number,
                 scaled = divisor ? whole / *divisor : whole;
    if (!norm) return scaled;
    const double clipped = clip_factor(clipping_norm(*norm, norm_is_f32), max_norm);
    return scaled * (clipped >= 1 ? 1 : clipped);  // NaN propagates
  }

  /** Returns the factor times a number. */
  friend constexpr Factor operator*(Factor factor, double multiplier) {
    factor.number *= multiplier;
    return factor;
  }
  friend bool operator==(const Factor&, const Factor&) = default;
};

// ---- lists --------------------------------------------------------------------------------------

/** One tensor of each list, all dense, of one size and on one device: what a kernel gets. */
struct MZ_API TensorListEntry {
  static constexpr std::size_t kMaxLists = 6;
  std::array<void*, kMaxLists> data{};  // null if the item has no tensor in that list
  std::array<DType, kMaxLists> dtype{};
  std::int64_t numel = 0;
  std::size_t index = 0;  // position in the caller's list, or AxpbyTensors::number; items without
                          // elements are left out, so positions have gaps
};

/** One tensor of each list, or an undefined one; all of one shape and on one device. */
using TensorTuple = std::array<Tensor, TensorListEntry::kMaxLists>;

/** Elements per unit of work, counted from each tensor's start. The partition depends only on the
 *  tensor sizes. */
inline constexpr std::int64_t kMultiTensorChunk = 65536;

// ---- optimizer updates --------------------------------------------------------------------------

/** Positions of an update's tensors in a TensorTuple; states start at kState. The low copy is a
 *  16-bit copy of the parameter, or undefined. */
enum UpdateList : std::uint8_t { kParam, kGrad, kLowCopy, kState };
inline constexpr std::size_t kMaxStates = TensorListEntry::kMaxLists - kState;

/** Settings of a whole step. */
struct UpdateCall {
  Factor inv_scale = 1;  // multiplies the gradients first, in f32 (f64 for f64)
  // On the device of the lists; not kAllFinite: nothing changes.
  NonfiniteWord* found_inf = nullptr;
  bool write_back = false;  // stores the multiplied gradients
  // Of a step on a device: the kernels count their items' updates, and the last one does this. Null
  // on the CPU, and in passes before the last.
  const StepEnd* end = nullptr;
  Device device = cpu;  // of the lists; run_update sets it
  /** Of an update with kMeasures, on a device: where L2 norms after it are stored. */
  struct Norms {
    double* each = nullptr;       // of item i's parameter at i, of its last state at count + i
    double* workspace = nullptr;  // of norm_workspace() bytes of both lists
    std::int64_t count = 0;
  } norms = {};  // without `each`: none
};

/** Runs an update over all items; `settings` is an array of the update's Settings, that of an item
 *  at its index. Parameters may be f16, bf16, f32 or f64, gradients too; states are in the
 * parameter's compute dtype. Each result is rounded once into the parameter and once into the low
 * copy. */
using UpdateKernel = void (*)(std::span<const TensorListEntry> items, const void* settings,
                              const UpdateCall& call);

/** One optimizer update and its kernels. */
struct MZ_API UpdateRow {
  std::string_view name;
  unsigned writes = 0;  // bit i is set if list i is written
  std::array<UpdateKernel, kNumDeviceKinds> kernel{};
};

/** Checks and packs the tensors and runs an update. `settings` is an array of the update's
 * Settings, one for each of `tensors`. Items without elements are left out, unless the kernel may
 * count them. If the tensors of an item have different layouts, row-major copies are used, with the
 * same results. Bumps the versions of the written tensors. Errors: ShapeError, DtypeError,
 * DeviceError, Unsupported; nothing is written then. */
MZ_API void run_update(const UpdateRow& row, std::vector<TensorTuple> tensors, const void* settings,
                       const UpdateCall& call = {});

/** run_update() in two steps: allocates, and returns the function that writes. For several passes
 * of which none may fail after the first has written. `settings` must outlive the function. Errors:
 * as run_update. */
MZ_API std::function<void()> prepared_update(const UpdateRow& row, std::vector<TensorTuple> tensors,
                                             const void* settings, const UpdateCall& call = {});

// ---- list arithmetic ----------------------------------------------------------------------------

/** One item of axpby. If y is undefined, the term b y is left out; if `out` is, x is only checked.
 *  `out` may be x or y. */
struct MZ_API AxpbyTensors {
  Tensor x = {}, y = {}, out = {};
  std::uint32_t number = 0;  // identifies the item in a NonfiniteWord
  double factor = 1;         // multiplies x, besides a
};

/** Whether a non-finite value was found, and the first one: an overflow flag. */
struct MZ_API FoundInf {
  // i64, one element: the largest NonfiniteWord of the values found, else kAllFinite.
  Tensor word = {};

  /** Returns new memory on a device, reset. Captured steps do not reuse it. */
  static FoundInf reset_on(Device device);
  /** Returns a pointer to the word; null if it is undefined. */
  NonfiniteWord* data() const {
    return word.defined() ? static_cast<NonfiniteWord*>(word.raw_data()) : nullptr;
  }
  /** Returns the word; kAllFinite if it is undefined. Waits for the device. */
  NonfiniteWord location() const;
  /** Returns true if a value was found. Waits for the device. */
  bool raised() const { return location() != kAllFinite; }
  /** Resets the word, if defined; allocates nothing. */
  void reset() const;
};

/** Computes out = a x + b y for every item, or out = a x without a y, in one pass for all of one
 *  device and factor. Precision: in f32 (f64 if out is f64); products and sum are rounded
 *  separately, the result once to out's dtype. Non-finite values of x are recorded in `found_inf`,
 *  if it is defined; results are written anyway. A factor of 1 does not change any value. Errors:
 *  ShapeError, DtypeError, DeviceError; nothing is written then. */
MZ_API void axpby(std::span<const AxpbyTensors> items, const Factor& a, const Factor& b,
                  const FoundInf& found_inf = {});

/** Records in `found_inf` whether a value of x is non-finite. Errors: DtypeError, DeviceError. */
MZ_API void check_finite(std::span<const AxpbyTensors> items, const FoundInf& found_inf);

/** Options of norms(). */
struct NormOptions {
  double p = 2;           // order, > 0; infinity: the largest magnitude
  Factor inv_scale = 1;   // multiplies every element first, in f32 (f64 for f64)
  Tensor found_inf = {};  // f32, one element: set to 1 if the total norm is non-finite
};

/** Norms of a list of tensors, f64 on the tensors' device. */
struct MZ_API Norms {
  Tensor total;  // 0-dim: norm of all elements of all tensors; 0 for an empty list
  Tensor each;   // one element per tensor; 0 for a tensor without elements
};

/** Computes the p-norm of each tensor and of all together. Infinities and NaNs propagate.
 *  Precision: powers and sums in f64, added in an order that depends only on the sizes. Errors:
 *  DtypeError; ValueError for p <= 0; DeviceError for tensors on several devices. */
MZ_API Norms norms(std::span<const Tensor> tensors, const NormOptions& options = {});
/** L2 norms in two steps, as prepared_update(): allocates, and returns the norms, which are zeros,
 *  with the function that computes those of each tensor. The tensors are the parameters of
 *  `update`, which runs before, then their last states: its kernels compute the norms where they
 *  can. Errors: as norms(). */
MZ_API std::pair<Norms, std::function<void()>> prepared_norms(std::span<const Tensor> tensors,
                                                              UpdateCall* update = nullptr);

/** Returns norms(tensors, options).total in f32, or in f64 if any tensor is f64. */
MZ_API Tensor total_norm(std::span<const Tensor> tensors, const NormOptions& options = {});

/** Arguments of the axpby kernel. */
struct AxpbyCall {
  Factor a, b;
  NonfiniteWord* found_inf;  // null: x is not checked
  Device device;
};
/** Arguments of the norm kernel. */
struct NormCall {
  double p;
  Factor inv_scale;
  double* total;     // overwritten
  double* each;      // each[item.index] is overwritten
  float* found_inf;  // may be null
  Device device;
  void* workspace;  // of norm_workspace() bytes
};

/** The list kernels of one kind of device. The lists are x, y and out; for the norm, only x.
 *  Without `out`, axpby only checks for non-finite values. */
struct MZ_API ListKernels {
  void (*axpby)(std::span<const TensorListEntry> items, const AxpbyCall& call) = nullptr;
  void (*norm)(std::span<const TensorListEntry> items, const NormCall& call) = nullptr;
  /** Returns the size of norm()'s workspace in bytes; a null pointer if it needs none. */
  std::int64_t (*norm_workspace)(std::span<const TensorListEntry> items) = nullptr;
  /** Multiplies a gradient by the inverse root of rows * columns / max(mean, eps), or by 1 / eps if
   *  that is less; all broadcast to it. Null: ops do it. */
  void (*factored_root)(Tensor grad, const Tensor& rows, const Tensor& columns, const Tensor& mean,
                        double eps) = nullptr;
};
/** Returns the kernels of a kind of device, for use or registration. */
MZ_API ListKernels& list_kernels(DeviceKind kind);

/** The kernels of the CPU: lists_cpu.cpp. */
void axpby_on_cpu(std::span<const TensorListEntry> items, const AxpbyCall& call);
void norm_on_cpu(std::span<const TensorListEntry> items, const NormCall& call);

}  // namespace mezzo::optim
