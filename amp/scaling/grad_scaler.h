// GradScaler: dynamic loss scaling for training loops that use autocast without a session.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../../nn/cast_tree.h"
#include "../../optim/optimizer.h"
#include "scale.h"

namespace mezzo::amp {

class AmpOptimizerState;
struct ScaledPasses;

/** Options of GradScaler. */
struct GradScalerOptions {
  double init_scale = 65536;    // scale of the first iteration
  double growth_factor = 2;     // multiplies the scale after growth_interval clean updates
  double backoff_factor = 0.5;  // multiplies the scale after an overflow
  int growth_interval = 2000;   // consecutive updates without overflow before the scale grows
  bool enabled = true;          // false: scale() returns its argument, step() is a plain step
  std::optional<double> min_scale = {};  // lower bound of the scale
  std::optional<double> max_scale = {};  // upper bound of the scale
  int hysteresis = 1;                    // consecutive overflows after which the scale backs off
  int max_consecutive_skips = 50;        // skipped steps that throw DivergenceError; 0: no limit
};

/** A dynamic loss scale, with the interface and defaults of torch.amp.GradScaler:
 *    scaler.scale(loss).backward();
 *    scaler.step(optimizer);
 *    scaler.update();
 *  A gradient is unscaled once, also if several optimizers hold its parameter or step with it
 *  again; if a backward pass adds to it later, only what is new is unscaled. Unlike PyTorch, which
 *  divides the whole by the scale for each optimizer and step.
 *  One scaler may serve several losses and optimizers. An overflow in any of them reduces the
 *  scale; it skips the step of the optimizer whose gradients overflowed. The constructor and the
 *  setters throw ValueError. */
class MZ_API GradScaler {
 public:
  /** Sets the scale to init_scale, rounded to f32. Errors: ValueError for an invalid option. */
  explicit GradScaler(const GradScalerOptions& options = {});
  ~GradScaler();
  /** Copies options, scale and history. Errors: StateError between a step and its update. */
  GradScaler(const GradScaler& other);
  /** As above; drops overflows recorded since this scaler's last update(). */
  GradScaler& operator=(const GradScaler& other);

  /** Returns x times the scale, in f64 for f64 and in f32 otherwise. Errors: DtypeError unless x
   *  is floating-point. */
  Tensor scale(const Tensor& x);
  /** Scales every tensor in a container, a tuple or a pair, nested ones included. */
  template <class Tensors>
  requires(nn::kMayHoldTensors<Tensors, Tensor (*)(const Tensor&)>)
  auto scale(const Tensors& tensors) {
    return nn::map_tensors(tensors, [this](const Tensor& x) { return scale(x); });
  }

  /** Divides the optimizer's gradients by the scale, in place, and records whether one is
   *  non-finite. Call it before clipping gradients. Errors: StateError if called twice between
   *  updates, after step(), or before any scale(), and if backward() was called on other tensors
   *  than the results of scale(); DtypeError that names an f16 gradient. */
  void unscale_(optim::Optimizer& optimizer);
  /** Unscales the gradients, unless unscale_() did, and steps; skips the step if a gradient is
   *  non-finite. Returns no_grads if there are no gradients. A fused optimizer (FusedAdam, ...)
   *  unscales within its update, and accepts f16 gradients. If the optimizer's step throws, its
   *  gradients stay unscaled: call step() again, or end the iteration with update(). On a device,
   *  scale and overflow flag stay there, and the result waits for it when it is looked at; see
   *  Optimizer::step. Errors: as unscale_ and Optimizer::step; StateError if a backward pass from a
   *  scaled loss has added to gradients after unscale_ (unlike PyTorch, which then uses scaled
   *  numbers), and for an optimizer of an enabled session; DivergenceError after
   *  max_consecutive_skips. */
  optim::StepResult step(optim::Optimizer& optimizer, const optim::StepOptions& options = {});
  /** Reduces the scale if a gradient overflowed since the last update, and grows it after
   *  growth_interval updates without overflow. Errors: StateError if neither unscale_() nor step()
   *  was called since the last update. */
  void update();
  /** Sets the scale; does nothing if disabled. Errors: ValueError unless finite and positive in
   *  f32; StateError before any scale(). */
  void update(double new_scale);

  /** Returns the scale; 1 if disabled. Waits for the device if the scale may have changed there.
   *  Errors: StateError in a capture. */
  double get_scale() const;
  /** Returns true if a gradient of this optimizer was non-finite since the last update. Waits for
   *  the device. */
  bool found_inf(const optim::Optimizer& optimizer) const;
  /** Returns false if losses are not scaled and step() is a plain step. */
  bool is_enabled() const { return enabled_; }
  /** Returns the factor by which the scale grows. */
  double growth_factor() const { return scaler_->rule().growth_factor; }
  /** Returns the factor by which an overflow reduces the scale. */
  double backoff_factor() const { return scaler_->rule().backoff_factor; }
  /** Returns the number of consecutive updates without overflow before the scale grows. */
  int growth_interval() const { return static_cast<int>(scaler_->rule().growth_interval); }
  /** Sets the growth factor; the scale stays. Errors: ValueError unless finite and above 1. */
  void set_growth_factor(double factor) { set(&ScaleState::growth_factor, factor); }
  /** Sets the backoff factor; the scale stays. Errors: ValueError unless in (0, 1). */
  void set_backoff_factor(double factor) { set(&ScaleState::backoff_factor, factor); }
  /** Sets the growth interval; the count of updates so far stays. Errors: ValueError below 1. */
  void set_growth_interval(int interval) {
    set(&ScaleState::growth_interval, std::int64_t{interval});
  }

  /** Returns the latest 256 changes of the scale, oldest first. Changes on a device are combined
   *  into one event whenever the host reads the scale. */
  std::vector<ScaleEvent> events() const { return scaler_->events(); }

  /** Returns scale, factors, interval and counters; empty if disabled. Call it after update(). */
  std::map<std::string, double> state_dict() const;
  /** Loads a state_dict and drops overflows recorded since the last update(). Errors: ValueError
   *  for a missing, unknown or invalid entry; nothing has changed then. */
  void load_state_dict(const std::map<std::string, double>& saved);
  /** Throws what load_state_dict would throw, and changes nothing. */
  void check_state_dict(const std::map<std::string, double>& saved);
  /** Checks a state, which holds these numbers, as load_state_dict() does. Returns the load, which
   *  does not allocate. */
  std::function<void()> stage(const mezzo::StateDict& saved);
  /** Returns true if a loss was scaled or gradients were unscaled since the last update();
   *  state_dict() does not contain that. */
  bool amid_iteration() const { return scaled_since_update_ || !used_optimizers().empty(); }

 private:
  template <class T> void set(T ScaleState::* setting, T value) {
    ScaleState changed = scaler_->state();
    changed.*setting = value;
    scaler_->change(changed, {});
  }
  std::vector<AmpOptimizerState*> used_optimizers() const;
  void end_iteration(bool drops_overflows);
  void require_scaled(std::string_view op) const;
  AmpOptimizerState& state_of(std::string_view op, optim::Optimizer& optimizer);
  bool any_unscaled(const optim::Optimizer& optimizer);
  void require_backward(std::string_view op, const optim::Optimizer& optimizer) const;
  void require_no_later_backward(std::string_view op, const AmpOptimizerState& state) const;
  void examine(AmpOptimizerState& state, bool unscales);

  std::shared_ptr<LossScaler> scaler_;
  bool enabled_;
  int max_consecutive_skips_;
  bool used_ = false;                     // scale() has been called
  bool scaled_since_update_ = false;      // scale() was called since the last update()
  std::int64_t iteration_ = 1;            // number of updates so far, and 1
  std::shared_ptr<ScaledPasses> passes_;  // since the last update()
  std::vector<std::shared_ptr<AmpOptimizerState>> optimizers_;
};

}  // namespace mezzo::amp
