// GradScaler: dynamic loss scaling to go with the autocast guard, for training loops without a session.
// Sees: nn (walking containers), optim.
// Read next: grad_scaler.cpp, autocast.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "../optim/optimizer.h"
#include "scale_history.h"

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
  /** Moves the scale by what was found since the last update. Errors: StateError where there was neither unscale_ nor step. */
  void update();
  /** Sets the scale instead. Errors: ValueError unless finite and positive. */
  void update(double new_scale);

  double get_scale() const { return options_.enabled ? scale_ : 1; }
  /** Whether a gradient of this optimizer was not finite, since the last update. */
  bool found_inf(const optim::Optimizer& optimizer) const;
  bool is_enabled() const { return options_.enabled; }
  double growth_factor() const { return options_.growth_factor; }
  double backoff_factor() const { return options_.backoff_factor; }
  int growth_interval() const { return options_.growth_interval; }
  void set_growth_factor(double factor);
  void set_backoff_factor(double factor);
  void set_growth_interval(int interval);

  /** The latest 256 overflows, growths and changes from outside, oldest first. */
  std::vector<ScaleEvent> events() const { return history_.events(); }

  /** Scale, factors, interval and counters; empty when disabled. Take it after update(). */
  std::map<std::string, double> state_dict() const;
  /** What was found since the last update() is forgotten.
   *  Errors: ValueError for a missing, unknown or impossible entry; nothing has changed then. */
  void load_state_dict(const std::map<std::string, double>& saved);
  /** Throws what load_state_dict would, and changes nothing. */
  void check_state_dict(const std::map<std::string, double>& saved) const;
  /** Whether a loss was scaled, or gradients were unscaled, since the last update(): state_dict() does not hold that. */
  bool amid_iteration() const { return scaled_since_update_ || !optimizers_.empty(); }

 private:
  enum class Stage : std::uint8_t { ready, unscaled, stepped };
  struct PerOptimizer {
    Stage stage = Stage::ready;
    bool found_inf = false;
    bool had_gradients = false;  // something was unscaled or stepped
  };

  /** What state_dict() holds. */
  struct Saved {
    GradScalerOptions options;
    float scale;
    int growth_tracker, hysteresis_tracker;
  };
  Saved checked(const std::map<std::string, double>& saved) const;
  void end_iteration();
  void require_between_updates() const;
  void require_scaled(std::string_view op) const;
  void require_unattached(std::string_view op, const optim::Optimizer& optimizer) const;
  void unscale(optim::Optimizer& optimizer, PerOptimizer& state);
  void look_through(const optim::Optimizer& optimizer, PerOptimizer& state);
  void note(const Tensor& flag, const optim::Optimizer& optimizer, PerOptimizer& state);
  void back_off();
  void grow();

  GradScalerOptions options_;
  float scale_;
  int growth_tracker_ = 0;
  int hysteresis_tracker_;
  bool used_ = false;                 // scale() has been called
  bool scaled_since_update_ = false;  // the same since the last update()
  std::unordered_map<const optim::Optimizer*, PerOptimizer> optimizers_;
  std::string culprit_;  // of the first overflow since the last update
  ScaleHistory history_;
};

}  // namespace mezzo::amp
