// AdagradUpdate: the formula of Adagrad and FusedAdagrad; optim/adagrad.h holds the options. Parsed
// by g++ and by nvcc.
#pragma once

#include <cmath>

#include "../adagrad.h"
#include "update.h"

namespace mezzo::optim {

/** Adagrad with L2 regularisation or decoupled weight decay. */
struct MZ_API AdagradUpdate {
  static constexpr std::string_view name = "adagrad";
  static constexpr std::size_t kStates = 1;  // sum of the squared gradients
  static constexpr unsigned kWrites = kWritesParam | kWritesStates;
  using Settings = SettingsOf<AdagradOptions>;

  static constexpr unsigned kModes = kNumDecays;
  static unsigned mode(const Settings& s) { return decay_mode(s.weight_decay, s.adagrad_w_mode); }

  template <class V, unsigned kMode> struct Formula {
    V sign, lr, start, eps, decay;

    MZ_HD explicit Formula(const Settings& s)
        : sign(sign_of<V>(s)),
          lr(static_cast<V>(s.time.rate() /
                            (1 + static_cast<double>(s.time.step() - 1) * s.lr_decay))),
          start(static_cast<V>(s.fresh ? s.initial_accumulator_value : 0)),
          eps(static_cast<V>(s.eps)),
          decay(static_cast<V>(s.weight_decay)) {}

    MZ_HD void operator()(V& p, V g, V& h) const {
      using std::sqrt;
      g = sign * g;
      if constexpr (kMode == kL2Decay) g = g + decay * p;
      h = (start + h) + g * g;
      V u = g / (sqrt(h) + eps);
      if constexpr (kMode == kDecoupledDecay) u = u + decay * p;
      p = p - lr * u;
    }
  };

  static void cpu(std::span<const TensorListEntry> items, const void* settings,
                  const UpdateCall& call);
};

}  // namespace mezzo::optim
