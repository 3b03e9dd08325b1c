// RAdamUpdate: the formula of RAdam; optim/radam.h holds the options. Parsed by g++ and by
// nvcc.
#pragma once

#include <cmath>

#include "../radam.h"
#include "update.h"

namespace mezzo::optim {

/** RAdam with L2 regularisation or decoupled weight decay. */
struct MZ_API RAdamUpdate {
  static constexpr std::string_view name = "radam";
  static constexpr std::size_t kStates = 2;  // mean of the gradient, mean of its square
  static constexpr unsigned kWrites = kWritesParam | kWritesStates;
  using Settings = SettingsOf<RAdamOptions>;

  static constexpr unsigned kModes = kNumDecays;
  static unsigned mode(const Settings& s) {
    return decay_mode(s.weight_decay, s.decoupled_weight_decay);
  }

  template <class V, unsigned kMode> struct Formula {
    RunningMeans<V> means;
    V correction1, rectifier;
    bool adapts;  // false in the first updates, whose variance is not tractable

    MZ_HD explicit Formula(const Settings& s)
        : means(s), correction1(static_cast<V>(s.time.correction1())), rectifier(1), adapts(false) {
      using std::sqrt;
      const double correction2 = s.time.correction2(), limit = 2 / (1 - s.betas.second) - 1;
      // beta2^t / (1 - beta2^t) = correction2 - 1
      const double length = limit - 2 * static_cast<double>(s.time.step()) * (correction2 - 1);
      adapts = length > 5;
      if (adapts)
        rectifier = static_cast<V>(sqrt((length - 4) * (length - 2) * limit /
                                        ((limit - 4) * (limit - 2) * length) / correction2));
    }

    MZ_HD void operator()(V& p, V g, V& m, V& v) const {
      using std::sqrt;
      if constexpr (kMode == kDecoupledDecay) p = p * (V(1) - means.lr * means.decay);
      means.template update<kMode == kL2Decay>(p, g, m, v);
      V u = m * correction1;
      if (adapts) u = u * rectifier / (sqrt(v) + means.eps);
      p = p - means.lr * u;
    }
  };

  static void cpu(std::span<const TensorListEntry> items, const void* settings,
                  const UpdateCall& call);
};

}  // namespace mezzo::optim
