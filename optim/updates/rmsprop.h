// RmsPropUpdate: the formula of RMSprop; optim/rmsprop.h holds the options. Parsed by g++ and by
// nvcc.
#pragma once

#include <cmath>

#include "../rmsprop.h"
#include "update.h"

namespace mezzo::optim {

/** RMSprop, centred or not, with or without momentum. */
struct MZ_API RmsPropUpdate {
  static constexpr std::string_view name = "rmsprop";
  static constexpr std::size_t kStates =
      3;  // mean of squares, momentum buffer, mean of the gradient
  static constexpr unsigned kWrites = kWritesParam | kWritesStates;
  using Settings = SettingsOf<RMSpropOptions>;

  enum Mode : unsigned { kDecay = 1, kMomentum = 2, kCentered = 4 };
  static constexpr unsigned kModes = 8;
  static unsigned mode(const Settings& s) {
    return (s.weight_decay != 0 ? kDecay : 0u) | (s.momentum != 0 ? kMomentum : 0u) |
           (s.centered ? kCentered : 0u);
  }

  template <class V, unsigned kMode> struct Formula {
    V sign, lr, alpha, fresh, eps, decay, momentum;

    MZ_HD explicit Formula(const Settings& s)
        : sign(sign_of<V>(s)),
          lr(static_cast<V>(s.time.rate())),
          alpha(static_cast<V>(s.alpha)),
          fresh(static_cast<V>(1 - s.alpha)),
          eps(static_cast<V>(s.eps)),
          decay(static_cast<V>(s.weight_decay)),
          momentum(static_cast<V>(s.momentum)) {}

    MZ_HD void operator()(V& p, V g, V& square, V& buffer, V& mean) const {
      using std::sqrt;
      g = sign * g;
      if constexpr ((kMode & kDecay) != 0) g = g + decay * p;
      square = alpha * square + fresh * g * g;
      V variance = square;
      if constexpr ((kMode & kCentered) != 0) {
        mean = mean + fresh * (g - mean);
        // Rounding may make the difference negative; of infinite squares it would be nan.
        const V difference = square - mean * mean;
        variance = difference < 0 ? V(0) : difference;
        variance = square == V(INFINITY) ? square : variance;
      }
      V u = g / (sqrt(variance) + eps);
      if constexpr ((kMode & kMomentum) != 0) {
        buffer = momentum * buffer + u;
        u = buffer;
      }
      p = p - lr * u;
    }
  };

  static void cpu(std::span<const TensorListEntry> items, const void* settings,
                  const UpdateCall& call);
};

}  // namespace mezzo::optim
