// AdamUpdate: the formula of Adam and AdamW; optim/adam.h holds the options. Parsed by g++ and by
// nvcc.
#pragma once

#include <cmath>

#include "update.h"

namespace mezzo::optim {

/** Settings of AdamUpdate. */
struct AdamSettings {
  double lr, beta1, beta2, eps, weight_decay;
  double correction1, correction2;  // 1 / (1 - beta^t), or 1: factors of the running means
  bool decoupled;
  DeviceTime time = {};
};

/** Adam with L2 regularisation or decoupled weight decay. */
struct MZ_API AdamUpdate {
  static constexpr std::string_view name = "adam";
  static constexpr std::size_t kStates = 2;  // mean of the gradient, mean of its square
  static constexpr unsigned kWrites = kWritesParam | kWritesStates;
  using Settings = AdamSettings;

  static constexpr unsigned kModes = kNumDecays;
  static unsigned mode(const Settings& s) { return decay_mode(s.weight_decay, s.decoupled); }

  template <class V, unsigned kMode> struct Formula {
    V lr, beta1, fresh1, beta2, fresh2, eps, decay, correction1, correction2;

    MZ_HD explicit Formula(const Settings& s)
        : lr(static_cast<V>(s.time.rate(s.lr))),
          beta1(static_cast<V>(s.beta1)),
          fresh1(static_cast<V>(1 - s.beta1)),
          beta2(static_cast<V>(s.beta2)),
          fresh2(static_cast<V>(1 - s.beta2)),
          eps(static_cast<V>(s.eps)),
          decay(static_cast<V>(s.weight_decay)),
          correction1(static_cast<V>(s.time.correction1(s.correction1))),
          correction2(static_cast<V>(s.time.correction2(s.correction2))) {}

    MZ_HD void operator()(V& p, V g, V& m, V& v) const {
      using std::sqrt;
      if constexpr (kMode == kL2Decay) g = g + decay * p;
      m = beta1 * m + fresh1 * g;
      v = beta2 * v + fresh2 * g * g;
      V u = (m * correction1) / (sqrt(v * correction2) + eps);
      if constexpr (kMode == kDecoupledDecay) u = u + decay * p;
      p = p - lr * u;
    }
  };

  static void cpu(std::span<const TensorListEntry> items, const void* settings,
                  const UpdateCall& call);
};

}  // namespace mezzo::optim
