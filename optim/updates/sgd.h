// SgdUpdate: the formula of stochastic gradient descent; optim/sgd.h holds the options. Parsed by
// g++ and by nvcc.
#pragma once

#include "../sgd.h"
#include "update.h"

namespace mezzo::optim {

/** Settings of SgdUpdate. */
using SgdSettings = SettingsOf<SgdOptions>;

/** Stochastic gradient descent with momentum. */
struct MZ_API SgdUpdate {
  static constexpr std::string_view name = "sgd";
  static constexpr std::size_t kStates = 1;  // momentum buffer; absent without momentum
  static constexpr unsigned kWrites = kWritesParam | kWritesStates;
  using Settings = SgdSettings;

  enum Mode : unsigned { kDecay = 1, kDecayLast = 2, kMomentum = 4, kFirst = 8, kNesterov = 16 };
  static constexpr unsigned kModes = 32;
  static unsigned mode(const Settings& s) {
    const unsigned decay = s.wd_after_momentum ? kDecayLast : kDecay;
    const unsigned momentum = kMomentum | (s.fresh ? kFirst : 0u) | (s.nesterov ? kNesterov : 0u);
    return (s.weight_decay != 0 ? decay : 0u) | (s.momentum != 0 ? momentum : 0u);
  }

  template <class V, unsigned kMode> struct Formula {
    V sign, lr, momentum, keep, decay;

    MZ_HD explicit Formula(const Settings& s)
        : sign(sign_of<V>(s)),
          lr(static_cast<V>(s.time.rate())),
          momentum(static_cast<V>(s.momentum)),
          keep(static_cast<V>(1 - s.dampening)),
          decay(static_cast<V>(s.weight_decay)) {}

    MZ_HD void operator()(V& p, V g, V& m) const {
      g = sign * g;
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
      if constexpr ((kMode & kDecayLast) != 0) g = g + decay * p;
      p = p - lr * g;
    }
  };

  static void cpu(std::span<const TensorListEntry> items, const void* settings,
                  const UpdateCall& call);
};

}  // namespace mezzo::optim
