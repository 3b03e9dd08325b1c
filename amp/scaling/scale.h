// The loss scale: ScaleState holds a scale and the rule that updates it, LossScaler keeps it in the
// memory of the device that has the gradients. scale_loss and GradScaler work on it. Parsed by g++
// and by nvcc.
// See also: ../../cuda/kernels/scale_call.cu (the kernel of CUDA devices).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "../../optim/step/step_record.h"
#include "../../optim/step/tensor_list.h"
#include "../../tensor/core/error.h"
#include "../../tensor/device/capture.h"
#include "../diagnose/loss_history.h"
#include "../properties.h"

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

/** The smallest normal f32, the lower bound of every scale: 1 / scale stays finite. */
inline constexpr double kScaleFloor = 0x1p-126;

/** Returns true for a scale that f32 can hold, and 1 / scale too. */
inline bool is_usable_scale(double scale) {
  const auto stored = static_cast<float>(scale);
  return stored >= kScaleFloor && stored - stored == 0;
}

/** A loss scale: the rule that updates it, its counters and the check in progress. */
struct ScaleState {
  double growth_factor = 2;             // multiplies the scale after clean checks
  double backoff_factor = 0.5;          // multiplies the scale after an overflow
  double min_scale = 0;                 // lower bound, besides kScaleFloor
  double max_scale = HUGE_VAL;          // upper bound
  std::int64_t growth_interval = 2000;  // checks without overflow in a row before the scale grows
  std::int64_t hysteresis = 1;          // overflows in a row after which the scale backs off
  bool dynamic = true;                  // false: checks are only counted
  bool is_f32 = false;                  // the scale is rounded to f32
  bool stops_at_max = true;  // growth beyond max_scale is cut to that; false: it is left out

  double scale = 1;                  // what the loss is multiplied by
  std::int64_t unskipped = 0;        // checks since the last overflow or growth
  std::int64_t hysteresis_left = 1;  // overflows left until the scale backs off
  std::int64_t checks = 0;           // all checks
  std::int64_t overflows = 0;        // checks with an overflow
  optim::NonfiniteWord first_nonfinite = optim::kAllFinite;  // of the latest check with an overflow
  optim::NonfiniteWord first = optim::kAllFinite;            // the same of the check in progress

  /** Returns a scale as it is stored. */
  MZ_HD double stored(double value) const {
    return is_f32 ? static_cast<double>(static_cast<float>(value)) : value;
  }
  /** Completes the check: updates scale and counters, if there were gradients (`any`). */
  MZ_HD void complete(bool any) {
    const bool overflow = first != optim::kAllFinite;
    ++checks;
    if (overflow) {
      ++overflows;
      first_nonfinite = first;
      first = optim::kAllFinite;
    }
    if (!overflow && !any) return;
    if (dynamic && overflow) {
      unskipped = 0;
      if (hysteresis_left > 0) --hysteresis_left;
      if (hysteresis_left > 0) return;
      const double lower = scale * backoff_factor,
                   bound = min_scale > kScaleFloor ? min_scale : kScaleFloor;
      scale = stored(lower > bound ? lower : bound);
      return;
    }
    hysteresis_left = hysteresis;
    if (unskipped < INT64_MAX) ++unskipped;
    // unskipped can exceed the interval after a load or a change of the interval.
    if (!dynamic || unskipped < growth_interval) return;
    unskipped = 0;
    const double higher = stored(scale * growth_factor);
    const bool fits = higher <= max_scale && higher - higher == 0;
    if (fits || stops_at_max) scale = fits ? higher : max_scale;
  }
};

/** The kernel call at the end of a step, and of a check without a step. Pointers refer to memory of
 *  the device that runs it. */
struct ScaleCall {
  static constexpr int kMostRaised = 8;  // flags that one call can raise

  optim::StepCall step = {};                  // counts a step first; nothing by default
  ScaleState* state = nullptr;                // updated; null: the call only counts a step
  float* scale32 = nullptr;                   // receives the scale as f32; may be null
  double* scale64 = nullptr;                  // receives the scale as f64; may be null
  optim::NonfiniteWord* found_inf = nullptr;  // an overflow flag, see optim::FoundInf; may be null
  bool notes = false;                         // adds the flag to the check in progress
  bool resets = false;                        // resets the flag afterwards
  bool completes = false;                     // completes the check: updates the scale
  bool any = false;                           // the completed check has gradients
  optim::NonfiniteWord* raised[kMostRaised] = {};  // flags to raise if `found_inf` is; may be null

  /** Updates the scale. For one thread. */
  MZ_HD void update() const {
    if (!state) return;
    const optim::NonfiniteWord word = found_inf ? *found_inf : optim::kAllFinite;
    if (notes && word > state->first) state->first = word;
    for (optim::NonfiniteWord* const flag : raised)
      if (flag && word > *flag) *flag = word;
    if (resets && found_inf) *found_inf = optim::kAllFinite;
    if (!completes) return;
    state->complete(any);
    if (scale32) *scale32 = static_cast<float>(state->scale);
    if (scale64) *scale64 = state->scale;
  }
};

/** Runs a call on a device. */
using ScaleKernel = void (*)(const ScaleCall& call, Device device);
/** Returns the kernel of a kind of device, for use or registration. */
MZ_API ScaleKernel& scale_kernel(DeviceKind kind);

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
  LossScaler* scaler = nullptr;  // whose scale it is
  double on_host = 1;            // the scale
  Tensor on_device = {};         // f64, one element; if defined, it replaces on_host
  std::int64_t version = 0;      // changes whenever the scale may change

  /** Returns the scale. Waits for the device if it is there. */
  double value() const { return on_device.defined() ? on_device.item<double>() : on_host; }
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

  /** Takes the loss scale and the bounds from `properties`. */
  explicit LossScaler(const Properties& properties);
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
  /** Runs a call on the scale and a flag, both on one device. Errors: CudaError; Unsupported if it
   *  changes a scale in a captured step that another open scope uses. */
  void run(ScaleCall call, const optim::FoundInf& found_inf = {});
  /** Completes the check of a flag beside the scale: on the CPU at once, on a device with
   *  finish_step() or before the scale is read. */
  void defer(const optim::FoundInf& found_inf);
  /** Completes the check of a flag given to defer(), if it is pending. */
  void finish_pending();
  /** Counts an optimizer's pending step, completes the check of its flag if that is pending, adds
   *  the flag to the check in progress as `call` says, and resets it: in one kernel call if the
   *  step was on the scale's device. Moves the flag to that device. */
  void finish_step(optim::StepState& steps, optim::FoundInf& found_inf, ScaleCall call = {});
  /** Returns what a scope that uses the present scale holds: until all have released it, checks do
   *  not change the memory that on() returned. */
  std::shared_ptr<void> use() const { return use_; }

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

  ScaleState state_;          // on the CPU the scale itself, else the host's copy
  Device device_ = cpu;       // of the scale
  Tensor memory_;             // a ScaleState on the device
  Tensor scale32_, scale64_;  // the scale on the device, for ops and kernels
  bool sent_ = false;         // the device's state is as new as the host's, or newer
  bool ahead_ = false;        // the device's state is newer
  optim::FoundInf pending_;   // the flag of a check that is not completed yet
  std::int64_t version_ = 0;  // changes whenever the scale may change
  std::shared_ptr<void> use_;
  std::vector<ScaleEvent> events_;
};

}  // namespace mezzo::amp
