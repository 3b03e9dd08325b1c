// AdamUpdate: the formula of Adam, AdamW and AMSGrad; optim/adam.h holds the options. Parsed by g++
// and by nvcc.
#pragma once

#include <cmath>

#include "../adam.h"
#include "update.h"

namespace mezzo::optim {

/** Adam with L2 regularisation or decoupled weight decay. */
struct MZ_API AdamUpdate {
  static constexpr std::string_view name = "adam";
  // mean of the gradient, mean of its square, the largest such mean (AMSGrad only)
  static constexpr std::size_t kStates = 3;
  static constexpr unsigned kWrites = kWritesParam | kWritesStates;
  using Settings = SettingsOf<AdamOptions>;

  static constexpr unsigned kModes = 2 * kNumDecays;
  static unsigned mode(const Settings& s) {
    return decay_mode(s.weight_decay, s.adam_w_mode) + (s.amsgrad ? kNumDecays : 0);
  }

  template <class V, unsigned kMode> struct Formula {
    static constexpr unsigned kDecay = kMode % kNumDecays;
    static constexpr bool kAmsgrad = kMode >= kNumDecays;
    RunningMeans<V> means;
    V correction1, correction2;

    MZ_HD explicit Formula(const Settings& s)
        : means(s),
          correction1(static_cast<V>(s.time.correction1())),
          correction2(static_cast<V>(s.time.correction2())) {}

    MZ_HD void operator()(V& p, V g, V& m, V& v, V& largest) const {
      using std::sqrt;
      means.template update<kDecay == kL2Decay>(p, g, m, v);
      V square = v;
      if constexpr (kAmsgrad) {
        if (!(v <= largest)) largest = v;
        square = largest;
      }
      V u = (m * correction1) / (sqrt(square * correction2) + means.eps);
      if constexpr (kDecay == kDecoupledDecay) u = u + means.decay * p;
      p = p - means.lr * u;
    }
  };

  static void cpu(std::span<const TensorListEntry> items, const void* settings,
                  const UpdateCall& call);
};

}  // namespace mezzo::optim
