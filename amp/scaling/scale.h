// The loss scale: LossScaler keeps a ScaleState in the memory of the device that has the gradients.
// scale_loss and GradScaler work on it.
// See also: ../../optim/step/step_record.h (ScaleState, the rule that updates the scale).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../../optim/step/step_record.h"
#include "../../optim/step/tensor_list.h"
#include "../../tensor/core/error.h"
#include "../../tensor/device/capture.h"
#include "../diagnose/loss_history.h"
#include "../options.h"

namespace mezzo::optim {
class StepState;
}

namespace mezzo::amp {

/** Too many consecutive steps were skipped, or, at a level that skips none, gradients are not
 *  finite. The message names the step, the first non-finite gradient with the index of the element,
 *  and since when the loss is not finite. */
struct MZ_API DivergenceError : AmpError {
  using AmpError::AmpError;
};

// ---- the rule -----------------------------------------------------------------------------------

using optim::kScaleFloor, optim::ScaleState;

/** Returns true for a scale that f32 can hold, and 1 / scale too. */
inline bool is_usable_scale(double scale) {
  const auto stored = static_cast<float>(scale);
  return stored >= kScaleFloor && stored - stored == 0;
}

// ---- the scaler ---------------------------------------------------------------------------------

/** Optimizers, by what they share with the graphs of captured steps. */
using OptimizerTable = std::vector<std::shared_ptr<optim::StepState>>;

/** The reason of a ScaleEvent. */
enum class ScaleReason : std::uint8_t {
  /** A gradient was non-finite. The scale may stay due to a bound, hysteresis or a static scale. */
  overflow,
  growth,    // growth_interval checks without overflow have passed
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

class LossScaler;

/** The value of a loss scale at one time. */
struct ScaleValue {
  LossScaler* scaler = nullptr;    // whose scale it is
  double on_host = 1;              // the scale
  Tensor on_device = {};           // f64, one element; if defined, it replaces on_host
  std::int64_t version = 0;        // changes whenever the scale may change
  std::shared_ptr<void> use = {};  // as long as it is held, no check changes on_device

  /** Returns the scale. Waits for the device if it is there. */
  double value() const { return on_device.defined() ? on_device.item<double>() : on_host; }
  /** Returns false if it is 1. */
  bool multiplies() const { return on_device.defined() || on_host != 1; }
  /** Returns true for the same value of one scaler. Waits if it may have changed. */
  bool equals(const ScaleValue& other) const {
    return scaler == other.scaler && (version == other.version || value() == other.value());
  }
  /** Returns 1 / scale as a factor of gradients on a device. Waits if the scale is on another. */
  optim::Factor inverse(Device device) const {
    if (!on_device.defined() || on_device.device() != device) return 1 / value();
    return optim::Factor::over(1, on_device.data<double>());
  }
};

/** A loss scale, dynamic or static. A dynamic scale starts at 2^16, halves on overflow and doubles
 *  after 2000 consecutive checks without overflow, within the bounds. A static one is constant. On
 *  a device the scale is updated there, and the functions that read it wait for the device if it
 *  may have changed since. Graphs of captured steps share it. */
class MZ_API LossScaler final : public CaptureParticipant,
                                public std::enable_shared_from_this<LossScaler> {
 public:
  static constexpr std::size_t kEvents = 256;  // greatest number of events()

  /** Takes the loss scale and its bounds from resolve(options). Errors: as resolve(). */
  explicit LossScaler(const Options& options);
  /** Takes any rule and counters. Errors: as check(). */
  explicit LossScaler(const ScaleState& state);
  /** Throws for a rule, a scale or counters out of range. Errors: ValueError that names what. */
  static void check(const ScaleState& state);

  /** Returns what losses are multiplied by. */
  double loss_scale() const { return dynamic() ? state().scale : state_.scale; }
  /** Returns the number of checks since the last overflow or growth. */
  std::int64_t unskipped() const { return state().unskipped; }
  /** Returns true if the scale adapts to overflows; false if it is static. */
  bool dynamic() const { return state_.dynamic; }
  /** Returns the scale with its rule and counters. */
  const ScaleState& state() const;
  /** Returns the same without its counters: does not wait. */
  const ScaleState& rule() const { return state_; }

  /** Sets the scale; counters and mode stay. Errors: ValueError unless finite and positive. */
  void set_loss_scale(double scale) { restore(scale, unskipped(), ScaleReason::set); }
  /** Updates scale and counters after one check. Returns true if the step must be skipped; a static
   *  scaler only counts and returns false. `first_nonfinite` describes the gradient that
   *  overflowed, for events(). */
  bool update(bool overflow, std::string first_nonfinite = {});
  /** Sets the scale and the counter to saved values. Errors: ValueError; nothing has changed
   *  then. */
  void restore(double scale, std::int64_t unskipped, ScaleReason reason = ScaleReason::restored);
  /** Sets rule, scale and counters, and adds an event if there is a `reason`. Errors: as
   *  check(); nothing has changed then. */
  void change(const ScaleState& state, std::optional<ScaleReason> reason);
  /** Takes over the rule, counters and events of another scaler. */
  void copy(const LossScaler& other);
  /** Returns the latest kEvents changes of the scale and overflows, oldest first. Changes on a
   *  device are combined into one event whenever the host reads the scale. */
  std::vector<ScaleEvent> events() const {
    (void)state();
    return events_;
  }

  // ---- for scale_loss and GradScaler ------------------------------------------------------------
  std::size_t index = 0;  // in its session
  /** The optimizers by their index in a NonfiniteWord, to name gradients in events(). */
  std::shared_ptr<OptimizerTable> optimizers;
  /** What events() adds to the name of the next overflow: the process it comes from. */
  std::string overflow_origin;
  optim::FoundInf scope_found_inf;  // the flag of scopes that do not use an optimizer's own
  LossHistory losses;               // that were scaled
  std::function<void()>
      on_abandon;  // called when a capture that uses the scale has failed; or null

  /** Returns the present scale for gradients on a device: of a dynamic scale the memory that
   *  changes there. Moves the scale to the device; in a captured step, each replay uploads the
   *  host's changes. Errors: OutOfMemory. */
  ScaleValue on(Device device);
  /** Returns x, in f32 if it is 16-bit, times the present scale. Errors: as on(). */
  Tensor times(const Tensor& x);
  /** Completes a pending check and moves the scale to the memory of a device. Errors:
   *  OutOfMemory. */
  void move_to(Device device);
  /** Does `end` with the scale and a flag, both on one device, after raising the flags `raised` to
   *  that one. Errors: CudaError; Unsupported if it changes a scale in a captured step that another
   *  open scope uses. */
  void run(optim::StepEnd end, const optim::FoundInf& found_inf,
           std::span<optim::NonfiniteWord* const> raised = {});
  /** Completes the check of a flag beside the scale: on the CPU at once, on a device with
   *  finish_step() or before the scale is read. */
  void defer(const optim::FoundInf& found_inf);
  /** Completes the check of a flag given to defer(), if it is pending; then `resets` the flag. */
  void finish_pending(bool resets = false);
  /** Adds a flag, which it moves to the scale's device, to the check in progress, and resets it.
   *  `completes` that check, of gradients if there were `any`. */
  void add(optim::FoundInf& found_inf, bool completes, bool any);
  /** Has the update of a step on a device reset an optimizer's flag, and complete its check if that
   *  is pending. Does nothing if the scale is elsewhere, or if a scope uses its memory. */
  void add_to(optim::StepEnd& end, const optim::FoundInf& found_inf);
  /** Does what add_to() has the update do, unless it has: `end` is what it did. */
  void finish_step(const optim::FoundInf& found_inf, const optim::StepEnd& end);

 private:
  void before_replay() override { send(); }
  void after_replay() override;
  void abandon_capture() noexcept override;
  void set(const ScaleState& changed);
  void note(double former, ScaleReason reason, std::string first_nonfinite = {});
  void note_change(const ScaleState& former, std::string first_nonfinite = {});
  void send();
  void follow_host();
  void allocate_scales(Device to);
  bool is_pending(const optim::FoundInf& found_inf) const;
  void attach(optim::StepEnd& end);
  void ended(const optim::StepEnd& end);

  ScaleState state_;           // on the CPU the scale itself, else the host's copy
  Device device_ = cpu;        // of the scale
  Tensor memory_;              // a ScaleState on the device
  Tensor scale32_, scale64_;   // the scale on the device, for ops and kernels
  bool sent_ = false;          // the device's state is as new as the host's, or newer
  bool ahead_ = false;         // the device's state is newer
  optim::FoundInf pending_;    // the flag of a check that is not completed yet
  std::int64_t version_ = 0;   // changes whenever the scale may change
  std::shared_ptr<void> use_;  // ScaleValue::use
  std::vector<ScaleEvent> events_;
};

}  // namespace mezzo::amp
