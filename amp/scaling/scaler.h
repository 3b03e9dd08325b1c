// LossScaler: one loss scale of a session and its counters.
// See also: ../../optim/scale_rule.h (the update rule).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "../properties.h"
#include "device_scale.h"
#include "scale_history.h"

namespace mezzo::amp {

/** A loss scale, dynamic or static. A dynamic scale starts at 2^16, halves on overflow and doubles
 *  after 2000 consecutive checks without overflow, within the bounds. A static one is constant. */
class MZ_API LossScaler {
 public:
  static constexpr double kInitialScale = 0x1p16;  // a dynamic scale at first, within the bounds
  static constexpr double kFactor = 2;             // multiplies or divides a dynamic scale
  static constexpr std::int64_t kWindow = 2000;    // checks without overflow before it grows

  /** Takes the loss scale and the bounds from `properties`. */
  explicit LossScaler(const Properties& properties);

  /** Returns the scale. Waits for the device after deferred steps. */
  double loss_scale() const { return state().scale; }
  /** Returns the number of checks since the last overflow or growth. Waits for the device after
   *  deferred steps. */
  std::int64_t unskipped() const { return state().unskipped; }
  /** Returns true if the scale adapts to overflows; false if it is static. */
  bool dynamic() const { return rule_.dynamic; }

  /** Sets the scale; counters and mode stay. Errors: ValueError unless finite and positive. */
  void set_loss_scale(double scale);
  /** Updates scale and counters after one check. Returns true if the step must be skipped; a static
   *  scaler only counts and returns false. `first_nonfinite` describes the gradient that
   *  overflowed, for events(). */
  bool update(bool overflow, std::string first_nonfinite = {});
  /** Reserves memory for the event of the next restore() or update(). */
  void make_room() const;
  /** Sets the scale and the counter to saved values. Errors: ValueError; nothing has changed
   *  then. */
  void restore(double scale, std::int64_t unskipped);
  /** Throws what restore() would throw. */
  static void check(double scale, std::int64_t unskipped);
  /** Returns the latest 256 changes of the scale and overflows, oldest first. Changes by deferred
   *  steps are combined into one event whenever the host reads the scale. Waits for the device
   *  after deferred steps. */
  std::vector<ScaleEvent> events() const;

  // ---- deferred steps: the device holds and updates the scale -----------------------------------
  /** Returns the scale in device memory; see ScaleStore::on. */
  const DeviceScale& on(Device device);
  /** Defers a check of a flag on the scale's device. take_pending() returns it; otherwise it runs
   *  before the host next reads the scale. */
  void defer(const FoundInf& found);
  /** Returns a call with the pending check and clears it; without one, a call that does not update
   *  the scale. */
  ScaleCall take_pending();
  /** Drops the pending check. */
  void drop_pending() { pending_ = {}; }
  /** Launches a call. */
  void run(const ScaleCall& call);
  /** Returns a call that neither checks anything nor updates the scale. */
  ScaleCall call();
  /** Counts a check for device_checks(); call it before a call that updates the scale is run. */
  void count_check() { ++device_checks_; }
  /** Sets the function that describes the gradient at a location, for events(). */
  void set_gradient_namer(std::function<std::string(const optim::NonfiniteLocation&)> namer) {
    namer_ = std::move(namer);
  }
  /** Returns the number of checks on the device so far. Scopes with equal numbers have the same
   *  scale. */
  std::int64_t device_checks() const { return device_checks_; }

 private:
  const ScaleState& state() const;
  /** Runs the pending check, if there is one. */
  void run_pending() const;
  /** Adds the updates on the device since the last call to the history. */
  void record_changes() const;

  ScaleRule rule_;
  mutable ScaleStore store_;
  Device device_ = cpu;       // device of the scale while steps are deferred
  mutable FoundInf pending_;  // the flag of the pending check
  std::int64_t device_checks_ = 0;
  mutable ScaleHistory history_;
  std::function<std::string(const optim::NonfiniteLocation&)> namer_;
};

}  // namespace mezzo::amp
