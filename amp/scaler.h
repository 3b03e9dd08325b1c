// LossScaler: one loss scale and its counters.
// Sees: properties.h, device_scale.h, scale_history.h.
// Read next: ../optim/scale_rule.h (how it moves), scale_loss.h (who applies it).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "device_scale.h"
#include "properties.h"
#include "scale_history.h"

namespace mezzo::amp {

/** Dynamic: starts at 2^16, halves on overflow, doubles after 2000 checks in a row without one, between the bounds. Static: one number. */
class MZ_API LossScaler {
 public:
  static constexpr double kInitialScale = 0x1p16;
  static constexpr double kFactor = 2;
  static constexpr std::int64_t kWindow = 2000;

  /** Starts by the loss scale and the bounds of `properties`. */
  explicit LossScaler(const Properties& properties);

  /** Waits for the device after deferred steps. */
  double loss_scale() const { return state().scale; }
  /** Checks without overflow since the last one, or since the scale moved. */
  std::int64_t unskipped() const { return state().unskipped; }
  bool dynamic() const { return rule_.dynamic; }

  /** Overwrites the scale; counters and mode stay. Errors: ValueError unless finite and positive. */
  void set_loss_scale(double scale);
  /** Takes note of one check; true when the step must be skipped. Static scalers only count, and never ask for a skip. `culprit` says which
   *  gradient overflowed, for events(). */
  bool update(bool overflow, std::string culprit = {});
  /** Takes memory for what the next restore() or update() writes down. */
  void make_room() const;
  /** Takes over saved values. Errors: ValueError; nothing has changed then. */
  void restore(double scale, std::int64_t unskipped);
  static void check(double scale, std::int64_t unskipped);
  /** The latest 256 overflows, growths and changes from outside, oldest first; of deferred steps, what was seen of them now and then, with the
   *  gradient that overflowed last. Waits for the device after deferred steps. */
  std::vector<ScaleEvent> events() const;

  // ---- deferred steps: the scale is on the device, and moves there ----------------------------------------------------------
  const DeviceScale& on(Device device);
  /** A check that moves the scale by a flag on its device, with the next call that is run, or at the latest when somebody asks for the scale. */
  void owe(const FoundInf& found);
  /** The check that waits, or a call that moves nothing. */
  ScaleCall take_owed();
  void drop_owed() { owed_ = {}; }
  void run(const ScaleCall& call);
  /** A call with nothing in it. */
  ScaleCall call();
  /** One that moves the scale is about to be run. */
  void count_check() { ++device_checks_; }
  /** Who tells which gradient is meant, for events(). */
  void name_culprits(std::function<std::string(const optim::BadValue&)> namer) { namer_ = std::move(namer); }
  /** Checks on the device so far: two scopes between which none comes have met one scale. */
  std::int64_t device_checks() const { return device_checks_; }

 private:
  const ScaleState& state() const;
  void run_owed() const;
  /** What the device has done becomes an event. */
  void note_seen() const;

  ScaleRule rule_;
  mutable KeptScale kept_;
  Device device_ = cpu;    // where it is kept while steps are deferred
  mutable FoundInf owed_;  // the flag of a check that waits
  std::int64_t device_checks_ = 0;
  mutable ScaleHistory history_;
  std::function<std::string(const optim::BadValue&)> namer_;
};

}  // namespace mezzo::amp
