// AdadeltaUpdate: the formula of Adadelta; optim/adadelta.h holds the options. Parsed by g++ and by
// nvcc.
#pragma once

#include <cmath>

#include "../adadelta.h"
#include "update.h"

namespace mezzo::optim {

/** Adadelta with L2 regularisation. */
struct MZ_API AdadeltaUpdate {
  static constexpr std::string_view name = "adadelta";
  static constexpr std::size_t kStates =
      2;  // mean of squares of the gradient, mean of squares of the changes
  static constexpr unsigned kWrites = kWritesParam | kWritesStates;
  using Settings = SettingsOf<AdadeltaOptions>;

  static constexpr unsigned kModes = 2;
  static unsigned mode(const Settings& s) { return decay_mode(s.weight_decay, false); }

  template <class V, unsigned kMode> struct Formula {
    V sign, lr, rho, fresh, eps, decay;

    MZ_HD explicit Formula(const Settings& s)
        : sign(sign_of<V>(s)),
          lr(static_cast<V>(s.time.rate())),
          rho(static_cast<V>(s.rho)),
          fresh(static_cast<V>(1 - s.rho)),
          eps(static_cast<V>(s.eps)),
          decay(static_cast<V>(s.weight_decay)) {}

    MZ_HD void operator()(V& p, V g, V& square, V& changes) const {
      using std::sqrt;
      g = sign * g;
      if constexpr (kMode == kL2Decay) g = g + decay * p;
      square = rho * square + fresh * g * g;
      const V change = sqrt(changes + eps) / sqrt(square + eps) * g;
      changes = rho * changes + fresh * change * change;
      p = p - lr * change;
    }
  };

  static void cpu(std::span<const TensorListEntry> items, const void* settings,
                  const UpdateCall& call);
};

}  // namespace mezzo::optim
