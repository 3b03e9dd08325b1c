// ExponentialMovingAverage: a slow copy of a model's weights, which often tests better than the weights themselves.
// Sees: module.h.
// Read next: ema.cpp.
#pragma once

#include "module.h"

namespace mezzo::nn {

struct EmaOptions {
  double decay = 0.999;      // the share of the average that each update keeps
  bool warmup = false;       // the n-th update (from 0) keeps (1 + n) / (10 + n) of it where that is less
  bool use_buffers = false;  // average floating buffers too; off: they are left alone
};

/** Averages of all parameters: average = decay * average + (1 - decay) * parameter at every update(), starting from the parameters.
 *    nn::ExponentialMovingAverage ema(model);
 *    ... optimizer.step(); ema.update();
 *    { const auto averaged = ema.averaged(); validate(model); }   // the weights return at the end of the scope
 *  Averages are f32 (f64 for f64), 16-bit models included; where mixed precision keeps masters of weights, the masters are averaged, and are what
 *  swap() exchanges. A parameter of several names is averaged once. Works on the model's device.
 *  Source: Polyak, Juditsky, SIAM J. Control Optim. 30 (1992); warm-up as in common use. */
class MZ_API ExponentialMovingAverage {
 public:
  /** Errors: ValueError unless 0 <= decay <= 1. */
  explicit ExponentialMovingAverage(const Module& model, const EmaOptions& options = {});
  ~ExponentialMovingAverage();
  ExponentialMovingAverage(const ExponentialMovingAverage&) = delete;
  ExponentialMovingAverage& operator=(const ExponentialMovingAverage&) = delete;

  /** Call it behind every step. Errors: StateError while swapped, ValueError where the model has other tensors than it had. */
  void update();
  std::int64_t num_updates() const;

  /** Exchanges weights and averages; a second call brings the weights back, bitwise. Gradients and optimizers are not touched. */
  void swap();
  bool swapped() const;

  /** Swapped from its making to its end. */
  class MZ_API Averaged {
   public:
    explicit Averaged(ExponentialMovingAverage& ema);
    ~Averaged();
    Averaged(const Averaged&) = delete;
    Averaged& operator=(const Averaged&) = delete;

   private:
    ExponentialMovingAverage& ema_;
  };
  /** Errors: StateError while swapped. */
  [[nodiscard]] Averaged averaged() { return Averaged(*this); }

  /** The averages under the model's names: `other.load_state_dict(ema.averages(), {.strict = false})`. Copies. */
  StateDict averages() const;

  /** The averages as "average.NAME" and "num_updates". Errors: StateError while swapped. */
  StateDict state_dict() const;
  /** Errors: ValueError that lists what is missing, unexpected or of another shape, StateError while swapped; nothing has changed then. */
  void load_state_dict(const StateDict& saved);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mezzo::nn
