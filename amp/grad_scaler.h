// GradScaler: dynamic loss scaling to go with the autocast guard, for training loops without a session.
// Sees: nn (walking containers), optim.
// Read next: grad_scaler.cpp, grad_scaler_deferred.cpp, grad_scaler_state.cpp, autocast.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "../optim/optimizer.h"
#include "device_scale.h"
#include "scale_history.h"
#include "skip_watch.h"

namespace mezzo::amp {

struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;     // after growth_interval updates in a row without overflow
  double backoff_factor = 0.5;  // after an overflow
  int growth_interval = 2000;
  bool enabled = true;  // false: scale() is the identity, step() the plain step
  std::optional<double> min_scale = {};
  std::optional<double> max_scale = {};
  int hysteresis = 1;              // overflows tolerated before the scale backs off
  int max_consecutive_skips = 50;  // then DivergenceError; 0: never
};

/** One loss scale, moved by what the optimizers found:
 *    scaler.scale(loss).backward();
 *    scaler.step(optimizer);
 *    scaler.update();
 *  One scaler may serve several losses and optimizers: an overflow anywhere backs the scale off, and skips the step of the optimizer that
 *  found it. Errors of the constructor and the setters: ValueError. */
class MZ_API GradScaler {
 public:
  explicit GradScaler(const GradScalerOptions& options = {});
  ~GradScaler();
  /** Errors: StateError between a step and its update. */
  GradScaler(const GradScaler& other);
  GradScaler& operator=(const GradScaler& other);

  /** x times the scale: in f32, in f64 for f64. */
  Tensor scale(const Tensor& x);
  /** Every tensor of a vector, an array or a map, however nested. */
  template <class Range>
  requires requires(Range r) { r.begin() != r.end(); }
  Range scale(const Range& tensors) {
    Range out = tensors;
    for (auto& entry : out) {
      if constexpr (requires { entry.second; })
        entry.second = scale(entry.second);
      else
        entry = scale(entry);
    }
    return out;
  }
  template <class... Ts> std::tuple<Ts...> scale(const std::tuple<Ts...>& tensors) {
    return std::apply([this](const Ts&... x) { return std::tuple<Ts...>(scale(x)...); }, tensors);
  }
  template <class A, class B> std::pair<A, B> scale(const std::pair<A, B>& tensors) {
    return {scale(tensors.first), scale(tensors.second)};
  }

  /** Divides the optimizer's gradients by the scale, in place, and notes whether one is not finite: to clip them before step().
   *  Errors: StateError the second time before update(), after step(), or before any scale(); DtypeError naming an f16 gradient. */
  void unscale_(optim::Optimizer& optimizer);
  /** Unscales unless that was done; then steps with `options`, or skips where a gradient was not finite. no_grads where there is nothing to
   *  step. A fused optimizer (FusedAdam, ...) unscales within its update: gradients are only looked through before, and may be f16. Where another
   *  one throws, its gradients are unscaled all the same: step again, or end the iteration with update().
   *  Errors: as unscale_; StateError for an optimizer of an enabled session; DivergenceError; as Optimizer::step. */
  optim::StepResult step(optim::Optimizer& optimizer, const optim::StepOptions& options = {});
  /** As step(), but without an answer and without waiting: what was found, the scale, counts and learning rate stay on the device, whose update
   *  leaves everything as it was where a gradient was not finite. For steps that are captured in a graph, and for loops that never wait. Until
   *  the optimizer has taken a step, and where its parameters are on several devices, it waits after all. The same bits as step().
   *  Errors: as step(); DivergenceError comes within 100 steps, or with last_verdict(). */
  void step_deferred(optim::Optimizer& optimizer, const optim::StepOptions& options = {});
  /** What the optimizer's latest step did. Waits for the device where that was deferred. Errors: DivergenceError. */
  optim::StepResult last_verdict(optim::Optimizer& optimizer);
  /** Moves the scale by what was found since the last update. Errors: StateError where there was neither unscale_ nor step. */
  void update();
  /** Sets the scale instead. Errors: ValueError unless finite and positive. */
  void update(double new_scale);

  /** Waits for the device after deferred steps. */
  double get_scale() const;
  /** Whether a gradient of this optimizer was not finite, since the last update. */
  bool found_inf(const optim::Optimizer& optimizer) const;
  bool is_enabled() const { return options_.enabled; }
  double growth_factor() const { return options_.growth_factor; }
  double backoff_factor() const { return options_.backoff_factor; }
  int growth_interval() const { return options_.growth_interval; }
  void set_growth_factor(double factor);
  void set_backoff_factor(double factor);
  void set_growth_interval(int interval);

  /** The latest 256 overflows, growths and changes from outside, oldest first; of deferred steps, what was seen of them
   *  now and then, with the gradient that overflowed last. */
  std::vector<ScaleEvent> events() const;

  /** Scale, factors, interval and counters; empty when disabled. Take it after update(). */
  std::map<std::string, double> state_dict() const;
  /** What was found since the last update() is forgotten.
   *  Errors: ValueError for a missing, unknown or impossible entry; nothing has changed then. */
  void load_state_dict(const std::map<std::string, double>& saved);
  /** Throws what load_state_dict would, and changes nothing. */
  void check_state_dict(const std::map<std::string, double>& saved) const;
  /** The load, checked and prepared: the function that it returns makes it and needs no memory. */
  std::function<void()> stage_state_dict(const std::map<std::string, double>& saved);
  /** Whether a loss was scaled, or gradients were unscaled, since the last update(): state_dict() does not hold that. */
  bool amid_iteration() const { return scaled_since_update_ || !optimizers_.empty(); }

 private:
  enum class Stage : std::uint8_t { ready, unscaled, stepped };
  struct PerOptimizer {
    Stage stage = Stage::ready;
    bool found_inf = false;
    bool had_gradients = false;  // something was unscaled or stepped
    FoundInf flag = {};  // on a device that has not been asked yet: not 0 where a gradient is not finite
    std::shared_ptr<optim::StepClock> clock = {};  // of a deferred step, which update() counts
  };

  /** What state_dict() holds. */
  struct Saved {
    GradScalerOptions options;
    ScaleState state;
  };
  Saved checked(const std::map<std::string, double>& saved) const;
  void end_iteration();
  void require_between_updates() const;
  void require_scaled(std::string_view op) const;
  void require_unattached(std::string_view op, const optim::Optimizer& optimizer) const;
  void unscale(optim::Optimizer& optimizer, PerOptimizer& state);
  class Entry;
  void look_through(const optim::Optimizer& optimizer, PerOptimizer& state);
  void note(const Tensor& flag, const optim::Optimizer& optimizer, PerOptimizer& state);
  PerOptimizer state_of(std::string_view op, const optim::Optimizer& optimizer) const;
  ScaleRule rule() const;
  double scale_number() const { return kept_.state().scale; }
  /** Scale and flags stay on the device: in a captured step, and from a deferred step to the next one that waits. */
  bool defers() const { return defers_ || Capture::current(); }
  /** An optimizer's flag, 0 between updates. */
  struct Flagged {
    FoundInf flag = {};
    std::size_t number = 0;  // what the flag knows the optimizer by
  };
  const Flagged& flag_for(const optim::Optimizer& optimizer, Device device);
  static FoundInf numbered(std::vector<optim::AxpbyTensors>& work, const Flagged& flagged);
  void read_flag(const optim::Optimizer& optimizer, PerOptimizer& state);
  void update_on_device();
  void watch(optim::Optimizer& optimizer);
  class Guest;
  void join_capture();
  void leave_captures();
  void note_seen() const;
  std::string culprit_of(const ScaleNews& news) const;

  GradScalerOptions options_;
  mutable KeptScale kept_;
  bool defers_ = false;
  std::unordered_map<const optim::Optimizer*, Flagged> flags_;
  std::vector<std::shared_ptr<optim::StepClock>> flagged_;  // of the optimizers that have had one, by number
  std::unordered_map<const optim::Optimizer*, SkipWatch> watches_;
  std::shared_ptr<Guest> guest_;      // of captured steps, once there is one
  bool used_ = false;                 // scale() has been called
  bool scaled_since_update_ = false;  // the same since the last update()
  std::unordered_map<const optim::Optimizer*, PerOptimizer> optimizers_;
  std::string culprit_;       // of the first overflow since the last update
  std::string host_culprit_;  // the same where the device did the update: of what it was told by the host
  mutable ScaleHistory history_;
};

}  // namespace mezzo::amp
