// LARC: layer-wise adaptive rate control, a transform of the gradients of another optimizer.
#pragma once

#include "optimizer.h"

namespace mezzo::optim {

/** Options of LARC. */
struct LarcOptions {
  double trust_coefficient = 0.02;  // factor of ||p|| in the local rate
  bool clip = true;   // the local rate is at most the optimizer's; false: it multiplies it
  double eps = 1e-8;  // added to the divisor of the local rate
  /** Returns true if all options are the same. */
  bool operator==(const LarcOptions&) const = default;
};

/** While it lives, every step of `optimizer` uses transformed gradients. For a parameter whose
 *  value and gradient have nonzero norms, g = a * (g + wd * p) with a = trust_coefficient * ||p||
 *  / (||g|| + wd * ||p|| + eps), with clip a = min(a / lr, 1). If a norm is 0, g is unchanged and
 *  weight decay is not applied. The optimizer's own weight decay is off during the step. The
 *  gradients keep their values after the step; 16-bit parameters with a master use the master. It
 *  converts to its optimizer wherever one is expected: amp::initialize, scale_loss, GradScaler,
 *  schedules. Precision: norms in f64, products in f32 (f64 for f64); needs one more tensor per
 *  parameter during a step. Errors: ValueError unless trust_coefficient and eps are >= 0;
 *  StateError for an optimizer that already has a LARC. Source: You, Gitman, Ginsburg, Large batch
 *  training of convolutional networks, 2017; apex.parallel.LARC (options and defaults). */
class MZ_API LARC final : private GradientTransform {
 public:
  /** Attaches itself to `optimizer`, which it does not own; the destructor detaches it. */
  explicit LARC(Optimizer& optimizer, const LarcOptions& options = {});
  ~LARC() override;
  LARC(const LARC&) = delete;
  LARC& operator=(const LARC&) = delete;

  /** Returns optimizer(), so that it can be passed where an Optimizer is expected. */
  operator Optimizer&() const { return optimizer(); }  // NOLINT: conversion is the point
  /** Returns the wrapped optimizer. Errors: StateError if it was destroyed. */
  Optimizer& optimizer() const;

  /** Calls Optimizer::step() of the wrapped optimizer. */
  StepResult step(const StepOptions& options = {}) { return optimizer().step(options); }
  /** Calls Optimizer::zero_grad() of the wrapped optimizer. */
  void zero_grad(bool set_to_none = true) { optimizer().zero_grad(set_to_none); }

 private:
  void around(Optimizer& optimizer, std::span<ParamUpdate> updates, UpdateCall& call,
              const std::function<void()>& update) override;
  void detached() noexcept override { optimizer_ = nullptr; }

  Optimizer* optimizer_;
  LarcOptions options_;
};

}  // namespace mezzo::optim
