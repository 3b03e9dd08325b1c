// The formulas of Adafactor: running means of squares, and the step along a direction.
// optim/adafactor.cpp runs them and computes the direction between them. Parsed by g++ and by nvcc.
#pragma once

#include <cmath>

#include "../adafactor.h"
#include "update.h"

namespace mezzo::optim {

/** Settings of AdafactorMeanUpdate and AdafactorUpdate, and of what is between them. */
struct AdafactorSettings : SettingsOf<AdafactorOptions> {
  double root_numel = 1;                   // square root of the number of elements
  const double* param_norm = nullptr;      // before the step
  const double* direction_norm = nullptr;  // of u

  bool operator==(const AdafactorSettings&) const = default;
};

/** Updates a running mean v of squares with the weight t^beta2_decay; v is passed as the parameter,
 *  the mean of the new squares as the gradient. */
struct MZ_API AdafactorMeanUpdate {
  static constexpr std::string_view name = "adafactor_mean";
  static constexpr std::size_t kStates = 0;
  static constexpr unsigned kWrites = kWritesParam;
  using Settings = AdafactorSettings;

  static constexpr unsigned kModes = 1;
  static unsigned mode(const Settings&) { return 0; }

  template <class V, unsigned kMode> struct Formula {
    V kept, fresh;

    MZ_HD explicit Formula(const Settings& s)
        : kept(static_cast<V>(1 - weight_of(s))), fresh(static_cast<V>(weight_of(s))) {}

    MZ_HD static double weight_of(const Settings& s) {
      using std::pow;
      return pow(static_cast<double>(s.time.step()), s.beta2_decay);
    }

    MZ_HD void operator()(V& v, V mean) const { v = kept * v + fresh * mean; }
  };

  static void cpu(std::span<const TensorListEntry> items, const void* settings,
                  const UpdateCall& call);
};

/** Steps along u: p = (1 - lr weight_decay) p - rate u. Does not use the gradient, which the call
 *  may have to write back. */
struct MZ_API AdafactorUpdate {
  static constexpr std::string_view name = "adafactor";
  static constexpr std::size_t kStates = 1;  // u
  static constexpr unsigned kWrites = kWritesParam, kUnread = 1u << kGrad;
  using Settings = AdafactorSettings;

  static constexpr unsigned kModes = 2;
  static unsigned mode(const Settings& s) { return s.weight_decay != 0 ? 1 : 0; }

  template <class V, unsigned kMode> struct Formula {
    V kept, rate;

    MZ_HD explicit Formula(const Settings& s)
        : kept(static_cast<V>(1 - s.time.rate() * s.weight_decay)),
          rate(static_cast<V>(rate_of(s))) {}

    /** Returns the factor of u: the smaller of lr and 1 / sqrt(t), times the root mean square of
     *  the parameter, at least eps2, divided by how far that of u exceeds d. */
    MZ_HD static double rate_of(const Settings& s) {
      using std::sqrt;
      const double lr = s.time.rate(), most = 1 / sqrt(static_cast<double>(s.time.step())),
                   rms = *s.param_norm / s.root_numel,
                   excess = *s.direction_norm / (s.root_numel * s.d);
      const double length = (rms > s.eps.second ? rms : s.eps.second) * (lr < most ? lr : most);
      return (s.maximize ? -length : length) / (excess > 1 ? excess : 1);
    }

    MZ_HD void operator()(V& p, V, const V& u) const {
      if constexpr (kMode == 1) p = kept * p;
      p = p - rate * u;
    }
  };

  static void cpu(std::span<const TensorListEntry> items, const void* settings,
                  const UpdateCall& call);
};

}  // namespace mezzo::optim
