// LARC: layer-wise adaptive rate control, a rule around another optimizer.
// Sees: optimizer.h.
// Read next: larc.cpp, updates/larc.h (the formula).
#pragma once

#include "optimizer.h"

namespace mezzo::optim {

struct LarcOptions {
  double trust_coefficient = 0.02;
  bool clip = true;  // the rate of a tensor is at most the optimizer's; false: it multiplies the optimizer's
  double eps = 1e-8;
};

/** As long as it lives, every step of `optimizer` sees other gradients: per parameter whose value and gradient both have a norm,
 *  g = a * (g + wd * p) with a = trust_coefficient * ||p|| / (||g|| + wd * ||p|| + eps), under clip a = min(a / lr, 1). Where a norm is 0, g stays
 *  and nothing decays. The optimizer itself runs without weight decay meanwhile. Gradients stay as they were after the step; masters stand in
 *  for 16-bit parameters. It counts as its optimizer wherever one is expected: amp::initialize, scale_loss, GradScaler, schedules.
 *  Precision: norms in f64, products in f32 (f64 for f64); one more tensor per parameter during a step.
 *  Errors: ValueError unless trust_coefficient and eps are >= 0; StateError for an optimizer that has one.
 *  Source: You, Gitman, Ginsburg, Large batch training of convolutional networks, 2017; apex.parallel.LARC (options and defaults). */
class MZ_API LARC final : private GradientRule {
 public:
  explicit LARC(Optimizer& optimizer, const LarcOptions& options = {});
  ~LARC() override;
  LARC(const LARC&) = delete;
  LARC& operator=(const LARC&) = delete;

  operator Optimizer&() const { return optimizer(); }  // NOLINT: it stands for its optimizer
  /** Errors: StateError where the optimizer has ended. */
  Optimizer& optimizer() const;

  StepResult step(const StepOptions& options = {}) { return optimizer().step(options); }
  void zero_grad(bool set_to_none = true) { optimizer().zero_grad(set_to_none); }

 private:
  void around(Optimizer& optimizer, std::span<ParamUpdate> updates, UpdateCall& call,
              const std::function<void()>& update) override;
  void detached() noexcept override { optimizer_ = nullptr; }

  Optimizer* optimizer_;
  LarcOptions options_;
};

}  // namespace mezzo::optim
