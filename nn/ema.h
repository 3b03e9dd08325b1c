// ExponentialMovingAverage: keeps a moving average of a model's weights.
#pragma once

#include <functional>

#include "../tensor/core/pointers.h"
#include "module.h"

namespace mezzo::nn {

/** Options of nn::ExponentialMovingAverage. */
struct EmaOptions {
  double decay = 0.999;      // weight of the old average in each update
  bool warmup = false;       // the n-th update (from 0) uses min(decay, (1 + n) / (10 + n))
  bool use_buffers = false;  // also averages floating buffers
};

/** Moving averages of all parameters of a model. They start as copies of the parameters, and each
 *  update() computes average = decay * average + (1 - decay) * parameter.
 *    nn::ExponentialMovingAverage ema(model);
 *    ... optimizer.step(); ema.update();
 *    { const auto averaged = ema.averaged(); validate(model); }  // restores the weights at the end
 *  Averages are f32 (f64 for f64), also for 16-bit models. With mixed precision and master
 *  weights, the masters are averaged and swapped. A parameter with several names is averaged once.
 *  Averages are computed on the model's device.
 *  Source: Polyak, Juditsky, SIAM J. Control Optim. 30 (1992). */
class MZ_API ExponentialMovingAverage {
 public:
  /** Errors: ValueError unless 0 <= decay <= 1. */
  explicit ExponentialMovingAverage(const Module& model, const EmaOptions& options = {});
  ~ExponentialMovingAverage();
  ExponentialMovingAverage(const ExponentialMovingAverage&) = delete;             // Not copyable.
  ExponentialMovingAverage& operator=(const ExponentialMovingAverage&) = delete;  // Not copyable.

  /** Updates the averages. Call it after every optimizer step.
   *  Errors: StateError while swapped; ValueError if the model's tensors have changed since
   *  construction. */
  void update();
  /** Returns the number of updates. */
  std::int64_t num_updates() const;

  /** Exchanges weights and averages. A second call restores the weights bitwise. Gradients and
   *  optimizers do not change. */
  void swap();
  /** Returns true while the model holds the averages. */
  bool swapped() const;

  /** Scope in which the model holds the averages. */
  class MZ_API Averaged {
   public:
    /** Swaps the averages in. `ema` must outlive the scope. Errors: StateError while swapped. */
    explicit Averaged(ExponentialMovingAverage& ema);
    /** Restores the weights unless they were swapped back already. Logs errors. */
    ~Averaged();
    Averaged(const Averaged&) = delete;             // Not copyable.
    Averaged& operator=(const Averaged&) = delete;  // Not copyable.

   private:
    ExponentialMovingAverage& ema_;
  };
  /** Swaps the averages in for the lifetime of the returned scope. Errors: StateError while
   *  swapped. */
  [[nodiscard]] Averaged averaged() { return Averaged(*this); }

  /** Returns copies of the averages under the model's names:
   *  `other.load_state_dict(ema.averages(), {.strict = false})`. */
  StateDict averages() const;

  /** Returns the averages as "average.NAME" and the number of updates as "num_updates". Errors:
   *  StateError while swapped. */
  StateDict state_dict() const;
  /** Loads what state_dict() returned.
   *  Errors: ValueError that lists missing and unexpected names and wrong shapes; StateError while
   *  swapped. Nothing changes on error. */
  void load_state_dict(const StateDict& saved) { stage(saved)(); }
  /** Checks and converts a state as load_state_dict() does. Returns the load, which does not
   *  allocate. */
  std::function<void()> stage(const StateDict& saved) const;
  /** Throws if load_state_dict() would throw, and changes nothing. */
  void check_state_dict(const StateDict& saved) const { (void)stage(saved); }

 private:
  struct State;
  Owner<State> state_;
};

}  // namespace mezzo::nn
