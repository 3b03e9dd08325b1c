// Adafactor: second moments of matrices as products of means of rows and columns.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "optimizer_of.h"

namespace mezzo::optim {

struct AdafactorSettings;
struct AdafactorUpdate;

/** Options of Adafactor. */
struct AdafactorOptions {
  double lr = 1e-2;           // most of the relative step, and factor of weight_decay
  double beta2_decay = -0.8;  // update t enters the means of squares with the weight t^beta2_decay
  /** The least root of a second moment, unset: machine epsilon of f32, or of f64 for f64; and the
   *  least root mean square of a parameter in its step. */
  std::pair<std::optional<double>, double> eps{std::nullopt, 1e-3};
  double d = 1;             // a direction whose root mean square exceeds this is shortened
  double weight_decay = 0;  // decoupled: the parameter is multiplied by 1 - lr * weight_decay
  bool maximize = false;    // go up the gradient instead of down
  /** Returns true if all options are the same. */
  bool operator==(const AdafactorOptions&) const = default;
};

/** The formulas and the options of Adafactor, for OptimizerOf. */
struct MZ_API AdafactorRule {
  /** Options of one group. */
  using Options = AdafactorOptions;
  /** The formula of the last pass; run() applies it. */
  using Update = AdafactorUpdate;
  /** Name of the optimizer's class. */
  static constexpr std::string_view type_name = "Adafactor";
  /** Running means of the squared gradient: of rows and columns of matrices, else of elements. */
  static constexpr std::array<StateSpec, 3> states{{{"row_var", StateExtent::row},
                                                    {"col_var", StateExtent::column},
                                                    {"variance", StateExtent::vector_element}}};

  /** Throws ValueError for an option out of range. */
  static void check(const Options& options);
  /** Updates all parameters: means of squares, directions, norms, steps. Nothing has changed if it
   *  throws. */
  static void run(std::vector<TensorTuple> tensors, std::span<AdafactorSettings> settings,
                  const UpdateCall& call);
  /** Calls `visit` with the name of each option and a reference to it. The state dict has them; an
   *  unset eps.first is saved as -1. */
  template <class Visit> static void fields(Options& o, const Visit& visit) {
    visit("lr", o.lr);
    visit("beta2_decay", o.beta2_decay);
    double eps1 = o.eps.first.value_or(-1);
    visit("eps1", eps1);
    o.eps.first = eps1 == -1 ? std::nullopt : std::optional(eps1);
    visit("eps2", o.eps.second);
    visit("d", o.d);
    visit("weight_decay", o.weight_decay);
    visit("maximize", o.maximize, o.maximize);
  }
};

extern template class MZ_API OptimizerOf<AdafactorRule>;

/** Adafactor, which keeps for a matrix of m rows and n columns m + n numbers. With g the gradient
 *  and w = t^beta2_decay in update t: R = (1 - w) R + w * mean of g^2 over each row, C likewise
 * over each column, V = R C / max(mean of R, eps1); for fewer than two dimensions V = (1 - w) V + w
 * g^2. u = g / max(sqrt(V), eps1), divided by max(1, rms(u) / d); p = (1 - lr * weight_decay) * p -
 *  max(eps2, rms(p)) * min(lr, 1 / sqrt(t)) * u. Tensors of more than two dimensions are stacks of
 *  matrices. Precision: f32 arithmetic and state for f16, bf16, f32; f64 for f64; one rounding per
 *  step. Needs a few more tensors per parameter during a step. Errors: ValueError unless lr, eps,
 *  weight_decay >= 0, beta2_decay <= 0 and d >= 1; DeviceError for parameters on several devices.
 *  Source: Shazeer, Stern, Adafactor: adaptive learning rates with sublinear memory cost, 2018;
 *  torch.optim.Adafactor (options, defaults, and the use of lr and eps1). */
class MZ_API Adafactor final : public OptimizerOf<AdafactorRule> {
 public:
  using OptimizerOf::OptimizerOf;
};

}  // namespace mezzo::optim
