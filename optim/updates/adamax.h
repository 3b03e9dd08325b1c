// AdamaxUpdate: the formula of Adamax; optim/adamax.h holds the options. Parsed by g++ and by
// nvcc.
#pragma once

#include <cmath>

#include "../adamax.h"
#include "update.h"

namespace mezzo::optim {

/** Adamax with L2 regularisation. */
struct MZ_API AdamaxUpdate {
  static constexpr std::string_view name = "adamax";
  static constexpr std::size_t kStates = 2;  // mean of the gradient, its decayed largest magnitude
  static constexpr unsigned kWrites = kWritesParam | kWritesStates;
  using Settings = SettingsOf<AdamaxOptions>;

  static constexpr unsigned kModes = 2;
  static unsigned mode(const Settings& s) { return decay_mode(s.weight_decay, false); }

  template <class V, unsigned kMode> struct Formula {
    V sign, rate, beta1, fresh1, beta2, eps, decay;

    MZ_HD explicit Formula(const Settings& s)
        : sign(sign_of<V>(s)),
          rate(static_cast<V>(s.time.rate() * s.time.correction1())),
          beta1(static_cast<V>(s.betas.first)),
          fresh1(static_cast<V>(1 - s.betas.first)),
          beta2(static_cast<V>(s.betas.second)),
          eps(static_cast<V>(s.eps)),
          decay(static_cast<V>(s.weight_decay)) {}

    MZ_HD void operator()(V& p, V g, V& m, V& largest) const {
      g = sign * g;
      if constexpr (kMode == kL2Decay) g = g + decay * p;
      m = beta1 * m + fresh1 * g;
      const V magnitude = (g < 0 ? -g : g) + eps, former = beta2 * largest;
      largest = magnitude <= former ? former : magnitude;  // NaN if the gradient is
      p = p - rate * (m / largest);
    }
  };

  static void cpu(std::span<const TensorListEntry> items, const void* settings,
                  const UpdateCall& call);
};

}  // namespace mezzo::optim
