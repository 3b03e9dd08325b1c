// DeviceScale: a loss scale and its counters in the memory of a device, moved there by the rule of optim/scale_rule.h, so that nobody waits to learn
// whether a gradient overflowed.
// Sees: optim, tensor.
// Read next: device_scale.cpp, grad_scaler.h, scale_loss.h (who keep one), ../cuda/kernels/deferred.cu.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "../optim/multi_tensor.h"
#include "../optim/scale_call.h"
#include "../tensor/capture.h"
#include "../tensor/transfer.h"

namespace mezzo::amp {

using optim::FoundInf;
using optim::ScaleCall;
using optim::ScaleCell;
using optim::ScaleRule;
using optim::ScaleState;

class MZ_API DeviceScale {
 public:
  /** Memory on a device; send() fills it. */
  explicit DeviceScale(Device device);

  Device device() const { return cell_.device(); }
  /** The scale as a number of the dtype: f32 or f64. */
  const Tensor& scale(DType dtype) const { return dtype == DType::f64 ? scale64_ : scale32_; }
  void send(const ScaleCell& cell);
  /** Waits for the device. */
  ScaleCell read() const;
  /** A call on this scale. */
  ScaleCall call(const ScaleRule& rule) const;
  void run(const ScaleCall& call) const { optim::scale_kernels(device().kind).run(call, device()); }

 private:
  Tensor cell_, scale32_, scale64_;
};

/** A flag on a device, 0, and nothing noted; where it is made in a captured step, at each replay. */
FoundInf lowered_flag(Device device);
/** Waits for the device. */
bool is_raised(const FoundInf& found);
void lower(const FoundInf& found);
/** As a device has it; of none where it is undefined. */
optim::OverflowFlag of_device(const FoundInf& found);

/** What a device alone has done with a scale. */
struct ScaleNews {
  double former = 1, now = 1;
  std::int64_t checks = 0;
  bool overflowed = false;
  optim::BadValue::Word culprit = optim::BadValue::kNone;  // of the latest overflow
};

/** A scale and its counters wherever they are up to date: on the host, or on a device that nobody has asked since. Copies are the host's. */
class MZ_API KeptScale {
 public:
  explicit KeptScale(const ScaleState& state);
  ~KeptScale();
  KeptScale(const KeptScale& other);
  KeptScale& operator=(const KeptScale& other);

  /** The state; waits for the device where it is ahead. */
  const ScaleState& state() const;
  /** The same, to be changed by the host. */
  ScaleState& change();
  /** What the device has done since the last call; nothing where it has done nothing. Waits for it where it is ahead. */
  std::optional<ScaleNews> take_news() const;
  /** The device has moved it since the host looked last. */
  bool is_ahead() const;

  /** The scale on a device, with all that the host knows; in a captured step, once it is replayed. Errors: OutOfMemory. */
  const DeviceScale& on(Device device);
  /** Runs a call on it, which may move it. Errors: CudaError. */
  void run(const ScaleCall& call);

 private:
  class Home;
  std::shared_ptr<Home> home_;
};

}  // namespace mezzo::amp
