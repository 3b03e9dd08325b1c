// The formulas of LAMB: the direction per element, and the step along it with a length per tensor.
// optim/lamb.cpp runs them and computes the norms between them. Parsed by g++ and by nvcc.
#pragma once

#include <cmath>

#include "../lamb.h"
#include "update.h"

namespace mezzo::optim {

/** Settings of LambDirectionUpdate. */
struct LambSettings : SettingsOf<FusedLambOptions> {
  const double* global_norm = nullptr;  // of all gradients

  bool operator==(const LambSettings&) const = default;
};

/** Settings of LambStepUpdate. */
struct LambStepSettings {
  const double* param_norm = nullptr;  // null: the step length is lr
  const double* direction_norm = nullptr;
  UpdateTime time = {};

  bool operator==(const LambStepSettings&) const = default;
};

/** Computes Adam's direction u from a clipped gradient. Only reads the parameter. */
struct MZ_API LambDirectionUpdate {
  static constexpr std::string_view name = "lamb_direction";
  static constexpr std::size_t kStates = 3;  // mean of the gradient, mean of its square, u
  static constexpr unsigned kWrites = kWritesStates, kUnread = 1u << (kState + 2);
  static constexpr bool kMeasures = true;
  using Settings = LambSettings;

  static constexpr unsigned kModes = kNumDecays;
  static unsigned mode(const Settings& s) { return decay_mode(s.weight_decay, s.adam_w_mode); }

  template <class V, unsigned kMode> struct Formula {
    V beta1, fresh1, beta2, fresh2, eps, decay, correction1, correction2, clip;

    MZ_HD explicit Formula(const Settings& s)
        : beta1(static_cast<V>(s.betas.first)),
          fresh1(static_cast<V>(s.grad_averaging ? 1 - s.betas.first : 1)),
          beta2(static_cast<V>(s.betas.second)),
          fresh2(static_cast<V>(1 - s.betas.second)),
          eps(static_cast<V>(s.eps)),
          decay(static_cast<V>(s.weight_decay)),
          correction1(static_cast<V>(s.time.correction1())),
          correction2(static_cast<V>(s.time.correction2())),
          clip(static_cast<V>(clip_of(s))) {}

    /** Returns the divisor of the gradients: more than 1 if their norm exceeds the limit. */
    MZ_HD static double clip_of(const Settings& s) {
      if (s.max_grad_norm <= 0 || !(*s.global_norm > s.max_grad_norm)) return 1;
      return *s.global_norm / s.max_grad_norm;
    }

    MZ_HD void operator()(const V& p, V g, V& m, V& v, V& u) const {
      using std::sqrt;
      g = g / clip;
      if constexpr (kMode == kL2Decay) g = g + decay * p;
      m = beta1 * m + fresh1 * g;
      v = beta2 * v + fresh2 * g * g;
      u = (m * correction1) / (sqrt(v * correction2) + eps);
      if constexpr (kMode == kDecoupledDecay) u = u + decay * p;
    }
  };

  static void cpu(std::span<const TensorListEntry> items, const void* settings,
                  const UpdateCall& call);
};

/** Steps along u, which is passed as the gradient: p -= r u, r = lr ||p|| / ||u|| or lr. */
struct MZ_API LambStepUpdate {
  static constexpr std::string_view name = "lamb_step";
  static constexpr std::size_t kStates = 0;
  static constexpr unsigned kWrites = kWritesParam;
  using Settings = LambStepSettings;

  static constexpr unsigned kModes = 1;
  static unsigned mode(const Settings&) { return 0; }

  template <class V, unsigned kMode> struct Formula {
    V rate;

    MZ_HD explicit Formula(const Settings& s) : rate(static_cast<V>(rate_of(s))) {}

    MZ_HD static double rate_of(const Settings& s) {
      const double lr = s.time.rate();
      if (!s.param_norm || *s.param_norm == 0 || *s.direction_norm == 0) return lr;
      return lr * (*s.param_norm / *s.direction_norm);
    }

    MZ_HD void operator()(V& p, V u) const { p = p - rate * u; }
  };

  static void cpu(std::span<const TensorListEntry> items, const void* settings,
                  const UpdateCall& call);
};

}  // namespace mezzo::optim
