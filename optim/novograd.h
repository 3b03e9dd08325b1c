// FusedNovoGrad: gradients divided by a running norm of their whole tensor.
#pragma once

#include <array>
#include <span>
#include <utility>
#include <vector>

#include "optimizer_of.h"

namespace mezzo::optim {

struct NovoGradSettings;
struct NovoGradUpdate;

/** Options of FusedNovoGrad. */
struct FusedNovoGradOptions {
  double lr = 1e-3;                             // learning rate
  std::pair<double, double> betas{0.9, 0.999};  // decay rates of running mean and running norm
  double eps = 1e-8;                            // added to the norm in the divisor
  double weight_decay = 0;                      // factor of the parameter
  bool bias_correction = true;                  // correct mean and norm for their start at 0
  bool reg_inside_moment = false;  // apply decay and division before the running mean; false: after
  bool grad_averaging = true;      // weight of a new value in the running mean: 1 - beta1; false: 1
  int norm_type = 2;               // 2: L2; 0: largest magnitude
  bool init_zero = false;          // the running norm starts at 0; false: at the first norm
  /** Returns true if all options are the same. */
  bool operator==(const FusedNovoGradOptions&) const = default;
};

/** The formulas and the options of FusedNovoGrad, for OptimizerOf. */
struct MZ_API FusedNovoGradRule {
  /** Options of one group. */
  using Options = FusedNovoGradOptions;
  /** The formula of one element; run() updates the norms before it. */
  using Update = NovoGradUpdate;
  /** Name of the optimizer's class. */
  static constexpr std::string_view type_name = "FusedNovoGrad";
  /** The update divides scaled gradients, 16-bit ones included, itself. */
  static constexpr bool kUnscalesItself = true;
  /** Running mean of the gradient, and one running norm per tensor. */
  static constexpr std::array<StateSpec, 2> states{
      {{"exp_avg"}, {"exp_avg_norm", StateExtent::tensor}}};

  /** Throws ValueError for an option out of range. */
  static void check(const Options& options);
  /** Updates all running norms, then all parameters. Allocates before anything changes. */
  static void run(std::vector<TensorTuple> tensors, std::span<NovoGradSettings> settings,
                  const UpdateCall& call);
  /** Calls `visit` with the name of each option and a reference to it. The state dict has them. */
  template <class Visit> static void fields(Options& o, const Visit& visit) {
    visit_adaptive_options(o, visit);
    visit("bias_correction", o.bias_correction);
    visit("reg_inside_moment", o.reg_inside_moment);
    visit("grad_averaging", o.grad_averaging);
    visit("norm_type", o.norm_type);
    visit("init_zero", o.init_zero);
  }
};

extern template class MZ_API OptimizerOf<FusedNovoGradRule>;

/** NovoGrad. v is a running norm of each tensor's gradient g: sqrt(beta2 * v^2 + (1 - beta2) *
 *  ||g||^2), or beta2 * v + (1 - beta2) * max|g|; it starts as the first norm. d = v / sqrt(1 -
 *  beta2^t) + eps; m is a running mean of g; p -= lr * (m / (1 - beta1^t) / d + weight_decay * p).
 *  With reg_inside_moment m is the mean of g / d + weight_decay * p, and p -= lr * m / (1 -
 *  beta1^t). Precision: f32 arithmetic and state for f16, bf16, f32; f64 for f64; norms in f64;
 *  one rounding per step. Errors: ValueError unless lr, eps, weight_decay >= 0, betas in [0, 1),
 *  norm_type 2 or 0; DeviceError for parameters on several devices. Source:
 *  Ginsburg et al., Stochastic gradient methods with layer-wise adaptive moments, 2019;
 *  apex.optimizers.FusedNovoGrad. */
class MZ_API FusedNovoGrad final : public OptimizerOf<FusedNovoGradRule> {
 public:
  using OptimizerOf::OptimizerOf;
};

}  // namespace mezzo::optim
