// FusedLAMB: Adam's direction, with a step whose length is measured by the weights of each tensor.
// Sees: optimizer_of.h.
// Read next: lamb.cpp (the passes), updates/lamb.h (the formulas).
#pragma once

#include <array>
#include <span>
#include <utility>

#include "optimizer_of.h"

namespace mezzo::optim {

struct FusedLambOptions {
  double lr = 1e-3;
  std::pair<double, double> betas{0.9, 0.999};
  double eps = 1e-6;
  double weight_decay = 0.01;
  bool bias_correction = true;
  bool adam_w_mode = true;     // decoupled weight decay; false: L2
  bool grad_averaging = true;  // the gradient enters its running mean with 1 - beta1; false: with 1
  double max_grad_norm =
      1;  // gradients of all groups, as one vector, are clipped to this L2 norm; 0 or less: not at all
  bool use_nvlamb = false;  // the length of the step follows the norms without weight decay too
  bool amsgrad = false;     // refused
};

struct MZ_API FusedLambRule {
  using Options = FusedLambOptions;
  using Update = LambDirectionUpdate;
  static constexpr std::string_view type_name = "FusedLAMB";
  static constexpr bool kUnscalesItself = true;
  static constexpr std::array<StateSpec, 2> states{{{"exp_avg"}, {"exp_avg_sq"}}};

  static void check(const Options& options);
  static bool keeps_state(const Options&) { return true; }
  static LambSettings settings(const Options& options, std::int64_t step, bool fresh);
  static void run(std::span<UpdateTensors> tensors, std::span<LambSettings> settings, const UpdateCall& call);
  template <class Visit> static void fields(Options& o, const Visit& visit) {
    visit_adaptive_options(o, visit);
    visit("bias_correction", o.bias_correction);
    visit("adam_w_mode", o.adam_w_mode);
    visit("grad_averaging", o.grad_averaging);
    visit("max_grad_norm", o.max_grad_norm);
    visit("use_nvlamb", o.use_nvlamb);
  }
};

extern template class MZ_API OptimizerOf<FusedLambRule>;

/** Gradients are clipped to max_grad_norm as one vector; u is AdamW's step (Adam's in L2 mode) without lr; p -= r * u with
 *  r = lr * ||p|| / ||u|| per tensor, r = lr where a norm is 0, or where there is neither weight decay nor use_nvlamb.
 *  Precision: f32 arithmetic and state for f16, bf16, f32; f64 for f64; norms in f64; one rounding per step. Holds one more tensor per
 *  parameter during a step.
 *  Errors: ValueError unless lr, eps, weight_decay >= 0 and betas in [0, 1), and for amsgrad; DeviceError for parameters on several devices.
 *  Source: You et al., Large batch optimization for deep learning: training BERT in 76 minutes, 2020; apex.optimizers.FusedLAMB. */
class MZ_API FusedLAMB final : public OptimizerOf<FusedLambRule> {
 public:
  using OptimizerOf::OptimizerOf;
};

}  // namespace mezzo::optim
