// Muon: steps along the momentum of a matrix, made orthogonal.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "optimizer_of.h"

namespace mezzo::optim {

struct MuonSettings;
struct MuonUpdate;

/** What multiplies Muon's learning rate for a matrix of m rows and n columns. */
enum class MuonRate : std::uint8_t {
  original,            // sqrt(max(1, m / n))
  match_rms_adamw,     // 0.2 sqrt(max(m, n)): rates of AdamW can be kept (arXiv:2502.16982)
  spectral_unclamped,  // sqrt(m / n)
};

/** Options of Muon. */
struct MuonOptions {
  double lr = 1e-3;           // learning rate
  double weight_decay = 0.1;  // decoupled: the parameter is multiplied by 1 - lr * weight_decay
  double momentum = 0.95;     // decay rate of the running mean of the gradient
  bool nesterov = true;       // look ahead by one step of the mean
  /** Coefficients a, b, c of an iteration x -> a x + b x^3 + c x^5 of the singular values. */
  std::array<double, 3> ns_coefficients{3.4445, -4.7750, 2.0315};
  double eps = 1e-7;                           // smallest divisor in the division by the norm
  std::int64_t ns_steps = 5;                   // iterations, below 100
  MuonRate adjust_lr_fn = MuonRate::original;  // factor of the learning rate
  /** Returns true if all options are the same. */
  bool operator==(const MuonOptions&) const = default;
};

/** The formulas and the options of Muon, for OptimizerOf. */
struct MZ_API MuonRule {
  /** Options of one group. */
  using Options = MuonOptions;
  /** The formula of the last pass; run() applies it. */
  using Update = MuonUpdate;
  /** Name of the optimizer's class. */
  static constexpr std::string_view type_name = "Muon";
  /** Running mean of the gradient. */
  static constexpr std::array<StateSpec, 1> states{{{"momentum_buffer"}}};

  /** Throws ValueError for an option out of range. */
  static void check(const Options& options);
  /** Throws ShapeError unless all parameters are matrices. */
  static void check_parameters(std::span<const Tensor> params);
  /** Updates all parameters: directions, their orthogonalisation, steps. Nothing has changed if it
   *  throws. */
  static void run(std::vector<TensorTuple> tensors, std::span<MuonSettings> settings,
                  const UpdateCall& call);
  /** Calls `visit` with the name of each option and a reference to it. The state dict has them. */
  template <class Visit> static void fields(Options& o, const Visit& visit) {
    visit("lr", o.lr);
    visit("weight_decay", o.weight_decay);
    visit("momentum", o.momentum);
    visit("nesterov", o.nesterov);
    visit("ns_a", o.ns_coefficients[0]);
    visit("ns_b", o.ns_coefficients[1]);
    visit("ns_c", o.ns_coefficients[2]);
    visit("eps", o.eps);
    visit("ns_steps", o.ns_steps);
    visit("adjust_lr_fn", o.adjust_lr_fn);
  }
};

extern template class MZ_API OptimizerOf<MuonRule>;

/** Muon, for the matrices of hidden layers; embeddings, heads, biases and norms need another
 *  optimizer, such as AdamW. With g the gradient: m = momentum * m + (1 - momentum) * g; d is m, or
 *  with nesterov momentum * m + (1 - momentum) * g; x = d / max(||d||, eps), then ns_steps times
 *  x = a x + (b (x x^T) + c (x x^T)^2) x, which brings its singular values near 1; p = (1 - lr *
 *  weight_decay) * p - lr * rate * x.
 *  Shape: parameters [m, n]. Precision: means and steps in f32 for f16, bf16, f32, in f64 for f64;
 *  the iteration in bf16; one rounding per step. Needs one more tensor per parameter, and during
 *  the iteration a few of bf16. Errors: ValueError unless lr, weight_decay, momentum, eps >= 0 and
 *  ns_steps in 0..99; ShapeError for parameters that are no matrices. Source: Jordan et al., Muon:
 *  an optimizer for hidden layers in neural networks, 2024; torch.optim.Muon (options and
 *  defaults). */
class MZ_API Muon final : public OptimizerOf<MuonRule> {
 public:
  using OptimizerOf::OptimizerOf;
};

}  // namespace mezzo::optim
