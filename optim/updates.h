// The update formulas of the optimizers, each written once for every device and every width.
// Sees: multi_tensor.h, update_settings.h. Parsed by g++ and by nvcc.
// Read next: multi_tensor_cpu.cpp (the loop around them), sgd.h, adam.h (their options).
#pragma once

#include <cmath>

#include "../tensor/macros.h"
#include "multi_tensor.h"
#include "update_settings.h"

namespace mezzo::optim {

// An update names the variants of its formula by a mode, known when the kernel starts: the loops then have no branches. (A factor of 0 is no
// substitute for leaving a term out: it would make NaN of an infinite weight.)

/** Stochastic gradient descent with momentum (AMP.md 12.2). */
struct MZ_API SgdUpdate {
  static constexpr std::string_view name = "sgd";
  static constexpr std::size_t kStates = 1;  // momentum buffer; absent without momentum

  using Settings = SgdSettings;

  enum Mode : unsigned { kDecay = 1, kMomentum = 2, kFirst = 4, kNesterov = 8 };
  static constexpr unsigned kModes = 16;
  static unsigned mode(const Settings& s) {
    const unsigned momentum = kMomentum | (s.first ? kFirst : 0u) | (s.nesterov ? kNesterov : 0u);
    return (s.weight_decay != 0 ? kDecay : 0u) | (s.momentum != 0 ? momentum : 0u);
  }

  template <class V, unsigned kMode> struct Formula {
    V lr, momentum, keep, decay;

    explicit Formula(const Settings& s)
        : lr(static_cast<V>(s.lr)),
          momentum(static_cast<V>(s.momentum)),
          keep(static_cast<V>(1 - s.dampening)),
          decay(static_cast<V>(s.weight_decay)) {}

    MZ_HD void operator()(V& p, V g, V& m) const {
      if constexpr ((kMode & kDecay) != 0) g = g + decay * p;
      if constexpr ((kMode & kMomentum) != 0) {
        if constexpr ((kMode & kFirst) != 0)
          m = g;
        else
          m = momentum * m + keep * g;
        if constexpr ((kMode & kNesterov) != 0)
          g = g + momentum * m;
        else
          g = m;
      }
      p = p - lr * g;
    }
  };

  static void cpu(std::span<const MultiItem> items, const void* settings, const UpdateCall& call);
};

/** Adam with L2 regularisation or decoupled weight decay (AMP.md 12.2). */
struct MZ_API AdamUpdate {
  static constexpr std::string_view name = "adam";
  static constexpr std::size_t kStates = 2;  // mean of the gradient, mean of its square

  using Settings = AdamSettings;

  enum Mode : unsigned { kL2 = 1, kDecoupled = 2 };
  static constexpr unsigned kModes = 3;
  static unsigned mode(const Settings& s) {
    if (s.weight_decay == 0) return 0;
    return s.decoupled ? kDecoupled : kL2;
  }

  template <class V, unsigned kMode> struct Formula {
    V lr, beta1, fresh1, beta2, fresh2, eps, decay, correction1, correction2;

    explicit Formula(const Settings& s)
        : lr(static_cast<V>(s.lr)),
          beta1(static_cast<V>(s.beta1)),
          fresh1(static_cast<V>(1 - s.beta1)),
          beta2(static_cast<V>(s.beta2)),
          fresh2(static_cast<V>(1 - s.beta2)),
          eps(static_cast<V>(s.eps)),
          decay(static_cast<V>(s.weight_decay)),
          correction1(static_cast<V>(s.correction1)),
          correction2(static_cast<V>(s.correction2)) {}

    MZ_HD void operator()(V& p, V g, V& m, V& v) const {
      using std::sqrt;
      if constexpr (kMode == kL2) g = g + decay * p;
      m = beta1 * m + fresh1 * g;
      v = beta2 * v + fresh2 * g * g;
      V u = (m * correction1) / (sqrt(v * correction2) + eps);
      if constexpr (kMode == kDecoupled) u = u + decay * p;
      p = p - lr * u;
    }
  };

  static void cpu(std::span<const MultiItem> items, const void* settings, const UpdateCall& call);
};

/** Calls f.operator()<m>() with the mode as a constant. */
template <class Update, unsigned kMode = 0, class F> void with_mode(unsigned mode, const F& f) {
  if (mode == kMode)
    f.template operator()<kMode>();
  else if constexpr (kMode + 1 < Update::kModes)
    with_mode<Update, kMode + 1>(mode, f);
}

/** The one row of an update. */
template <class Update> inline constinit UpdateRow update_row = {Update::name, {&Update::cpu}};

}  // namespace mezzo::optim
