// DeviceScale: a loss scale and its counters in the memory of a device, moved there by the rule of optim/scale_rule.h, so that nobody waits to learn
// whether a gradient overflowed.
// Sees: optim, tensor.
// Read next: device_scale.cpp, grad_scaler.h, scale_loss.h (who keep one), ../cuda/kernels/deferred.cu.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "../optim/scale_call.h"
#include "../tensor/capture.h"
#include "../tensor/transfer.h"

namespace mezzo::amp {

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
  void send(const ScaleState& state);
  /** Waits for the device. */
  ScaleCell read() const;
  /** A call on this scale. */
  ScaleCall call(const ScaleRule& rule) const;
  void run(const ScaleCall& call) const { optim::scale_kernels(device().kind).run(call, device()); }

 private:
  Tensor cell_, scale32_, scale64_;
};

/** A flag on a device, 0; where it is made in a captured step, at each replay. */
Tensor lowered_flag(Device device);

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
  /** Overflows that the device alone has seen so far, as of the latest state(). */
  std::int64_t device_overflows() const;
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
