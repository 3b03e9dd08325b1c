// LossScaler: a loss scale with its counters and history, in the memory of the device that has the
// gradients. scale_loss and GradScaler work on it.
// See also: scale_call.h (the update rule, and the kernel call that applies it).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "../../optim/multi_tensor.h"
#include "../properties.h"

namespace mezzo::optim {
class DeviceStepState;
}

namespace mezzo::amp {

struct OverflowFlag;
struct ScaleCall;
struct ScaleRule;
struct ScaleState;

/** The reason of a ScaleEvent. */
enum class ScaleReason : std::uint8_t {
  /** A gradient was non-finite. The scale may stay due to a bound, hysteresis or a static scale. */
  overflow,
  growth,    // a window without overflow has passed
  set,       // the program set the scale
  restored,  // a saved state was loaded
};

/** Returns the name of a reason, such as "overflow". */
MZ_API std::string_view name(ScaleReason reason);

/** A change of a loss scale, or an overflow. */
struct MZ_API ScaleEvent {
  std::int64_t step = 0;  // number of the check (GradScaler: update), counted from 1
  /** The scale before the event. */
  double old_scale = 0, new_scale = 0;    // the scale after it; the same if an overflow kept it
  ScaleReason reason = ScaleReason::set;  // why the scale changed
  /** Of an overflow: the first non-finite gradient, such as "inf at [3,17] of fc1.weight"; empty if
   *  none was found. */
  std::string first_nonfinite = {};

  /** Returns a text such as "step 7: 65536 -> 32768 (overflow, inf at [3,17] of fc1.weight)". */
  std::string text() const;
};

/** The value of a loss scale at one time. */
struct ScaleValue {
  double on_host = 1;        // the scale
  Tensor on_device = {};     // f64, one element; if defined, it replaces on_host
  std::int64_t version = 0;  // changes whenever the scale may change

  /** Returns the scale. Waits for the device if it is there. */
  double value() const { return on_device.defined() ? on_device.item<double>() : on_host; }
  /** Returns 1 / scale as a factor of gradients on a device. Waits if the scale is on another. */
  optim::Factor inverse(Device device) const {
    if (!on_device.defined() || on_device.device() != device) return 1 / value();
    return optim::Factor::over(1, on_device.data<double>());
  }
};

/** A loss scale, dynamic or static. A dynamic scale starts at 2^16, halves on overflow and doubles
 *  after 2000 consecutive checks without overflow, within the bounds. A static one is constant. On
 *  a device the scale is updated there, and the functions that read it wait for the device if it
 *  may have changed since. */
class MZ_API LossScaler {
 public:
  static constexpr double kInitialScale = 0x1p16;  // a dynamic scale at first, within the bounds
  static constexpr double kFactor = 2;             // multiplies or divides a dynamic scale
  static constexpr std::int64_t kWindow = 2000;    // checks without overflow before it grows
  static constexpr std::size_t kEvents = 256;      // greatest number of events()

  /** Takes the loss scale and the bounds from `properties`. */
  explicit LossScaler(const Properties& properties);
  /** Takes any rule and state. */
  LossScaler(const ScaleRule& rule, const ScaleState& state);
  ~LossScaler();
  /** Copies rule, state and events. */
  LossScaler(const LossScaler& other);
  /** As the copy constructor. */
  LossScaler& operator=(const LossScaler& other);

  /** Returns the scale. */
  double loss_scale() const;
  /** Returns the number of checks since the last overflow or growth. */
  std::int64_t unskipped() const;
  /** Returns true if the scale adapts to overflows; false if it is static. */
  bool dynamic() const;
  /** Returns the scale and its counters. */
  const ScaleState& state() const;

  /** Sets the scale; counters and mode stay. Errors: ValueError unless finite and positive. */
  void set_loss_scale(double scale);
  /** Sets the update rule; the state stays. */
  void set_rule(const ScaleRule& rule);
  /** Updates scale and counters after one check. Returns true if the step must be skipped; a static
   *  scaler only counts and returns false. `first_nonfinite` describes the gradient that
   *  overflowed, for events(). */
  bool update(bool overflow, std::string first_nonfinite = {});
  /** Reserves memory for the event of the next restore() or check. */
  void make_room() const;
  /** Sets the scale and the counter to saved values. Errors: ValueError; nothing has changed
   *  then. */
  void restore(double scale, std::int64_t unskipped);
  /** Sets the state. Errors: as restore(). */
  void change(const ScaleState& state, ScaleReason reason);
  /** Returns the latest kEvents changes of the scale and overflows, oldest first. Changes on a
   *  device are combined into one event whenever the host reads the scale. */
  std::vector<ScaleEvent> events() const;

  // ---- for scale_loss and GradScaler ------------------------------------------------------------
  /** Sets what events() adds to the description of the next overflow: the process it comes from. */
  void set_overflow_origin(std::string origin);
  /** Sets the function that describes the gradient at a location, for events(), and one that is
   *  called when a capture that uses the scale is abandoned. Both may be null. */
  void set_owner(std::function<std::string(const optim::NonfiniteLocation&)> namer,
                 std::function<void()> abandoned);

  /** Returns the present scale for gradients on a device: of a dynamic scale the memory that
   *  changes there. Moves the scale to the device; in a captured step, each replay uploads the
   *  host's changes. Errors: OutOfMemory. */
  ScaleValue on(Device device);
  /** Returns x, in f32 if it is 16-bit, times the present scale. Errors: as on(). */
  Tensor times(const Tensor& x);
  /** Returns the device whose memory has the scale. */
  Device device() const;

  /** Returns a call on the scale that changes nothing; moves the scale to the device. */
  ScaleCall call(Device device);
  /** Runs a call, on the device of call(). Errors: CudaError; Unsupported if it changes a scale in
   *  a captured step that another open scope uses. */
  void run(const ScaleCall& call);
  /** Completes a check of a flag on device(). On the CPU at once, on a device with the call of
   *  take_pending(), or before the scale is read. */
  void defer(const optim::FoundInf& found);
  /** Returns a call with the pending check, and clears it; without one as call(). */
  ScaleCall take_pending();
  /** Notes that a scope uses the present scale until close_scope(): checks do not change the
   *  memory that on() returned. */
  void open_scope();
  /** Ends a scope: checks may change that memory again after the last one. */
  void close_scope();

 private:
  class State;
  std::shared_ptr<State> state_;
};

/** Returns the pointers of a flag; null pointers if it is undefined. */
OverflowFlag pointers_of(const optim::FoundInf& found);
/** Adds the count of an optimizer's pending step to a call, or counts it now if its counters are
 *  not on the device of the call. */
void add_step(ScaleCall& call, Device device, optim::DeviceStepState& steps);

}  // namespace mezzo::amp
