// SgdUpdate: the formula of stochastic gradient descent; optim/sgd.h holds the options. Parsed by
// g++ and by nvcc.
#pragma once

#include "../sgd.h"
#include "update.h"

namespace mezzo::optim {

/** Stochastic gradient descent with momentum. */
struct MZ_API SgdUpdate {
  static constexpr std::string_view name = "sgd";
  static constexpr std::size_t kStates = 1;  // momentum buffer; absent without momentum
  static constexpr unsigned kWrites = kWritesParam | kWritesStates;
  using Settings = SettingsOf<SgdOptions>;

  /** Where weight decay enters; a mode is one of these, plus kPlaces times a kind of momentum. */
  enum Decay : unsigned { kWithout, kBefore, kAfter };
  enum Momentum : unsigned { kNoMomentum, kPlain, kNesterov, kFirst, kFirstNesterov };
  static constexpr unsigned kPlaces = 3, kKinds = 5, kModes = kPlaces * kKinds;
  static unsigned mode(const Settings& s) {
    const unsigned decay = s.wd_after_momentum ? kAfter : kBefore;
    const unsigned kind = kPlain + (s.nesterov ? 1u : 0u) + (s.fresh ? 2u : 0u);
    return (s.weight_decay != 0 ? decay : 0u) + kPlaces * (s.momentum != 0 ? kind : kNoMomentum);
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
      constexpr unsigned kDecay = kMode % kPlaces, kKind = kMode / kPlaces;
      g = sign * g;
      if constexpr (kDecay == kBefore) g = g + decay * p;
      if constexpr (kKind != kNoMomentum) {
        if constexpr (kKind >= kFirst)
          m = g;
        else
          m = momentum * m + keep * g;
        if constexpr (kKind == kNesterov || kKind == kFirstNesterov)
          g = g + momentum * m;
        else
          g = m;
      }
      if constexpr (kDecay == kAfter) g = g + decay * p;
      p = p - lr * g;
    }
  };

  static void cpu(std::span<const TensorListEntry> items, const void* settings,
                  const UpdateCall& call);
};

}  // namespace mezzo::optim
