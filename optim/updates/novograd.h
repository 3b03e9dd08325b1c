// The formulas of NovoGrad: one running norm per tensor, and the step that divides by it.
// optim/novograd.cpp runs both. Parsed by g++ and by nvcc.
#pragma once

#include <cmath>

#include "../novograd.h"
#include "update.h"

namespace mezzo::optim {

/** Settings of NovoGradNormUpdate and NovoGradUpdate. */
struct NovoGradSettings : SettingsOf<FusedNovoGradOptions> {
  const void* norm = nullptr;  // the tensor's running norm, in the compute dtype

  bool operator==(const NovoGradSettings&) const = default;
};

/** Updates the running norm v of one tensor from its gradient's norm n: a one-element update with
 * v as the parameter and n as the gradient. */
struct MZ_API NovoGradNormUpdate {
  static constexpr std::string_view name = "novograd_norm";
  static constexpr std::size_t kStates = 0;
  static constexpr unsigned kWrites = kWritesParam;
  using Settings = NovoGradSettings;

  enum Mode : unsigned { kFirst = 1, kMax = 2 };
  static constexpr unsigned kModes = 4;
  static unsigned mode(const Settings& s) {
    return (s.fresh && !s.init_zero ? kFirst : 0u) | (s.norm_type == 0 ? kMax : 0u);
  }

  template <class V, unsigned kMode> struct Formula {
    V beta2, fresh2;

    MZ_HD explicit Formula(const Settings& s)
        : beta2(static_cast<V>(s.betas.second)), fresh2(static_cast<V>(1 - s.betas.second)) {}

    MZ_HD void operator()(V& v, V n) const {
      using std::sqrt;
      if constexpr ((kMode & kFirst) != 0) v = n;
      if constexpr ((kMode & kMax) != 0)
        v = beta2 * v + fresh2 * n;
      else
        v = sqrt(beta2 * v * v + fresh2 * n * n);
    }
  };

  static void cpu(std::span<const TensorListEntry> items, const void* settings,
                  const UpdateCall& call);
};

/** Divides the gradient by the tensor's running norm, before or after it enters the running mean,
 *  and steps. */
struct MZ_API NovoGradUpdate {
  static constexpr std::string_view name = "novograd";
  static constexpr std::size_t kStates = 1;  // mean of the gradient
  static constexpr unsigned kWrites = kWritesParam | kWritesStates;
  using Settings = NovoGradSettings;

  enum Mode : unsigned { kDecay = 1, kInside = 2 };
  static constexpr unsigned kModes = 4;
  static unsigned mode(const Settings& s) {
    return (s.weight_decay != 0 ? kDecay : 0u) | (s.reg_inside_moment ? kInside : 0u);
  }

  template <class V, unsigned kMode> struct Formula {
    V lr, beta1, fresh1, decay, correction1, divisor;

    MZ_HD explicit Formula(const Settings& s)
        : lr(static_cast<V>(s.time.rate())),
          beta1(static_cast<V>(s.betas.first)),
          fresh1(static_cast<V>(s.grad_averaging ? 1 - s.betas.first : 1)),
          decay(static_cast<V>(s.weight_decay)),
          correction1(static_cast<V>(s.time.correction1())),
          divisor(0) {
      using std::sqrt;
      // The norm's correction is the root of that of its square.
      divisor = *static_cast<const V*>(s.norm) * static_cast<V>(sqrt(s.time.correction2())) +
                static_cast<V>(s.eps);
    }

    MZ_HD void operator()(V& p, V g, V& m) const {
      if constexpr ((kMode & kInside) != 0) {
        g = g / divisor;
        if constexpr ((kMode & kDecay) != 0) g = g + decay * p;
        m = beta1 * m + fresh1 * g;
        p = p - lr * (m * correction1);
      } else {
        m = beta1 * m + fresh1 * g;
        V u = (m * correction1) / divisor;
        if constexpr ((kMode & kDecay) != 0) u = u + decay * p;
        p = p - lr * u;
      }
    }
  };

  static void cpu(std::span<const TensorListEntry> items, const void* settings,
                  const UpdateCall& call);
};

}  // namespace mezzo::optim
