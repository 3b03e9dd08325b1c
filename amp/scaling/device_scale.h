// DeviceScale and ScaleStore: a loss scale and its counters in device memory. The device updates
// them by the rule of optim/scale_rule.h, which avoids a host sync to read the overflow flag.
// See also: ../../cuda/kernels/deferred.cu (the kernel).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "../../optim/multi_tensor.h"
#include "../../optim/scale_call.h"
#include "../../tensor/device/capture.h"
#include "../../tensor/memory/transfer.h"

namespace mezzo::amp {

using optim::FoundInf;
using optim::ScaleCall;
using optim::ScaleCell;
using optim::ScaleRule;
using optim::ScaleState;

/** A loss scale and its counters in the memory of one device. */
class MZ_API DeviceScale {
 public:
  /** Allocates the memory; send() fills it. */
  explicit DeviceScale(Device device);

  Device device() const { return cell_.device(); }
  /** Returns the scale as a 0-dim tensor of dtype f32 or f64. */
  const Tensor& scale(DType dtype) const { return dtype == DType::f64 ? scale64_ : scale32_; }
  /** Uploads the scale and its counters. */
  void send(const ScaleCell& cell);
  /** Downloads the scale and its counters. Waits for the device. */
  ScaleCell read() const;
  /** Returns a kernel call on this scale. */
  ScaleCall call(const ScaleRule& rule) const;
  /** Launches a kernel call. */
  void run(const ScaleCall& call) const { optim::scale_kernels(device().kind).run(call, device()); }

 private:
  Tensor cell_, scale32_, scale64_;
};

/** Returns a new overflow flag on a device, 0 and without a location. If it is created in a
 *  captured step, each replay resets it. */
FoundInf lowered_flag(Device device);
/** Returns true if the flag is non-zero. Waits for the device. */
bool is_raised(const FoundInf& found);
/** Resets the flag and its location. */
void lower(const FoundInf& found);
/** Returns the flag's device pointers; null pointers if it is undefined. */
optim::OverflowFlag of_device(const FoundInf& found);

/** Updates of a loss scale on the device since the host last read them. */
struct ScaleChanges {
  double former = 1, now = 1;  // scale before and after
  std::int64_t checks = 0;
  bool overflowed = false;
  // Location of the latest overflow.
  optim::NonfiniteLocation::Word first_nonfinite = optim::NonfiniteLocation::kNone;
};

/** A cached loss scale with its counters; the host copy may be stale until it is synchronised with
 *  the device. A copy of the object holds the synchronised state and has no device memory. */
class MZ_API ScaleStore {
 public:
  explicit ScaleStore(const ScaleState& state);
  ~ScaleStore();
  ScaleStore(const ScaleStore& other);
  ScaleStore& operator=(const ScaleStore& other);

  /** Returns the state. Waits for the device if its state is newer. */
  const ScaleState& state() const;
  /** Returns the state for modification; the next on() uploads it. Waits for the device if its
   *  state is newer. */
  ScaleState& change();
  /** Returns the updates on the device since the last call; empty if there were none. Waits for
   *  the device if its state is newer. */
  std::optional<ScaleChanges> take_changes() const;
  /** Returns true if the device's state is newer than the host's. */
  bool is_ahead() const;

  /** Returns the scale in device memory, with the host's changes uploaded. In a captured step, each
   *  replay uploads them. Errors: OutOfMemory. */
  const DeviceScale& on(Device device);
  /** Launches a kernel call, which may update the scale. Errors: CudaError. */
  void run(const ScaleCall& call);

 private:
  class SharedScale;
  std::shared_ptr<SharedScale> shared_;
};

}  // namespace mezzo::amp
