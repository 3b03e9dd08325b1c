// NAdamUpdate and NAdamProductUpdate: the formulas of NAdam; optim/nadam.h holds the options.
// Parsed by g++ and by nvcc.
#pragma once

#include <cmath>

#include "../nadam.h"
#include "update.h"

namespace mezzo::optim {

/** Returns the momentum of an update of NAdam, which grows to beta1. */
MZ_HD inline double nadam_momentum(double beta1, double momentum_decay, std::int64_t step) {
  return beta1 * (1 - 0.5 * std::pow(0.96, static_cast<double>(step) * momentum_decay));
}

/** Settings of NAdamProductUpdate and NAdamUpdate. */
struct NAdamSettings : SettingsOf<NAdamOptions> {
  const void* product = nullptr;  // of the momenta up to t, in the compute dtype

  bool operator==(const NAdamSettings&) const = default;
};

/** Multiplies the product of one parameter's momenta by the present one: a one-element update with
 *  the product as the parameter. */
struct MZ_API NAdamProductUpdate {
  static constexpr std::string_view name = "nadam_product";
  static constexpr std::size_t kStates = 0;
  static constexpr unsigned kWrites = kWritesParam;
  using Settings = NAdamSettings;

  static constexpr unsigned kModes = 2;
  static unsigned mode(const Settings& s) { return s.fresh ? 1 : 0; }

  template <class V, unsigned kFirst> struct Formula {
    V momentum;

    MZ_HD explicit Formula(const Settings& s)
        : momentum(static_cast<V>(nadam_momentum(s.betas.first, s.momentum_decay, s.time.step()))) {
    }

    MZ_HD void operator()(V& product, V) const {
      product = kFirst != 0 ? momentum : product * momentum;
    }
  };

  static void cpu(std::span<const TensorListEntry> items, const void* settings,
                  const UpdateCall& call);
};

/** NAdam with L2 regularisation or decoupled weight decay. */
struct MZ_API NAdamUpdate {
  static constexpr std::string_view name = "nadam";
  static constexpr std::size_t kStates = 2;  // mean of the gradient, mean of its square
  static constexpr unsigned kWrites = kWritesParam | kWritesStates;
  using Settings = NAdamSettings;

  static constexpr unsigned kModes = kNumDecays;
  static unsigned mode(const Settings& s) {
    return decay_mode(s.weight_decay, s.decoupled_weight_decay);
  }

  template <class V, unsigned kMode> struct Formula {
    RunningMeans<V> means;
    V correction2, of_gradient, of_mean;

    MZ_HD explicit Formula(const Settings& s)
        : means(s), correction2(static_cast<V>(s.time.correction2())) {
      const std::int64_t step = s.time.step();
      const double product = static_cast<double>(*static_cast<const V*>(s.product)),
                   now = nadam_momentum(s.betas.first, s.momentum_decay, step),
                   next = nadam_momentum(s.betas.first, s.momentum_decay, step + 1);
      of_gradient = static_cast<V>((1 - now) / (1 - product));
      of_mean = static_cast<V>(next / (1 - product * next));
    }

    MZ_HD void operator()(V& p, V g, V& m, V& v) const {
      using std::sqrt;
      if constexpr (kMode == kDecoupledDecay) p = p * (V(1) - means.lr * means.decay);
      means.template update<kMode == kL2Decay>(p, g, m, v);
      p = p - means.lr * ((of_gradient * g + of_mean * m) / (sqrt(v * correction2) + means.eps));
    }
  };

  static void cpu(std::span<const TensorListEntry> items, const void* settings,
                  const UpdateCall& call);
};

}  // namespace mezzo::optim
