// FusedLAMB: Adam's direction, with a step length per tensor from the norms of parameter and
// direction.
#pragma once

#include <array>
#include <span>
#include <utility>
#include <vector>

#include "optimizer_of.h"

namespace mezzo::optim {

struct LambSettings;
struct LambDirectionUpdate;

/** Options of FusedLAMB. */
struct FusedLambOptions {
  double lr = 1e-3;                             // learning rate
  std::pair<double, double> betas{0.9, 0.999};  // decay rates of the two running means
  double eps = 1e-6;                            // added to the root in the divisor
  double weight_decay = 0.01;                   // factor of the parameter, see adam_w_mode
  bool bias_correction = true;                  // divide the running means by 1 - beta^t
  bool adam_w_mode = true;                      // decoupled weight decay; false: L2
  bool grad_averaging = true;  // weight of the gradient in its running mean: 1 - beta1; false: 1
  /** All gradients are clipped, as one vector, to this L2 norm; 0 or less: no clipping. */
  double max_grad_norm = 1;
  bool use_nvlamb = false;  // use the norms for the step length without weight decay too
  /** Returns true if all options are the same. */
  bool operator==(const FusedLambOptions&) const = default;
};

/** The formulas and the options of FusedLAMB, for OptimizerOf. */
struct MZ_API FusedLambRule {
  /** Options of one group. */
  using Options = FusedLambOptions;
  /** The formula of the direction u; run() applies it. */
  using Update = LambDirectionUpdate;
  /** Name of the optimizer's class. */
  static constexpr std::string_view type_name = "FusedLAMB";
  /** The update divides scaled gradients, 16-bit ones included, itself. */
  static constexpr bool kUnscalesItself = true;
  /** Running means of the gradient and of its square. */
  static constexpr std::array<StateSpec, 2> states{{{"exp_avg"}, {"exp_avg_sq"}}};

  /** Throws ValueError for an option out of range. */
  static void check(const Options& options);
  /** Updates all parameters in several passes: gradient norm, directions, norms, steps. Allocates
   *  everything before anything changes. */
  static void run(std::vector<TensorTuple> tensors, std::span<LambSettings> settings,
                  const UpdateCall& call);
  /** Calls `visit` with the name of each option and a reference to it. The state dict has them. */
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

/** LAMB. Gradients are clipped to max_grad_norm as one vector; u is AdamW's step (Adam's in L2
 *  mode) without lr; p -= r * u with r = lr * ||p|| / ||u|| per tensor, or r = lr if a norm is 0
 *  or neither weight decay nor use_nvlamb is set. Precision: f32 arithmetic and state for f16,
 *  bf16, f32; f64 for f64; norms in f64; one rounding per step. Needs one more tensor per
 *  parameter during a step. Errors: ValueError unless lr, eps, weight_decay >= 0 and betas in
 *  [0, 1); DeviceError for parameters on several devices. Source: You et al.,
 *  Large batch optimization for deep learning: training BERT in 76 minutes, 2020;
 *  apex.optimizers.FusedLAMB. */
class MZ_API FusedLAMB final : public OptimizerOf<FusedLambRule> {
 public:
  using OptimizerOf::OptimizerOf;
};

}  // namespace mezzo::optim
