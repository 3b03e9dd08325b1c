// LarcUpdate: the formula of LARC, which computes a new gradient from a parameter and its gradient;
// optim/larc.h holds the options. Parsed by g++ and by nvcc.
#pragma once

#include "../larc.h"
#include "update.h"

namespace mezzo::optim {

/** Settings of LarcUpdate. */
struct LarcSettings : LarcOptions {
  double weight_decay = 0;  // of the optimizer
  const double* param_norm = nullptr;
  const double* grad_norm = nullptr;
  UpdateTime time = {};

  bool operator==(const LarcSettings&) const = default;
};

/** out = a (g + wd p), with a from the norms of the whole tensors, or out = g if one norm is 0.
 *  `out` is passed as the parameter, the parameter as a state that is only read. */
struct MZ_API LarcUpdate {
  static constexpr std::string_view name = "larc";
  static constexpr std::size_t kStates = 1;
  static constexpr unsigned kWrites = kWritesParam, kUnread = 1u << kParam;
  using Settings = LarcSettings;

  static constexpr unsigned kModes = 2;
  static unsigned mode(const Settings& s) { return s.weight_decay != 0 ? 1 : 0; }

  template <class V, unsigned kMode> struct Formula {
    V rate, decay;
    bool adapts;

    MZ_HD explicit Formula(const Settings& s)
        : rate(static_cast<V>(rate_of(s))),
          decay(static_cast<V>(s.weight_decay)),
          adapts(*s.param_norm != 0 && *s.grad_norm != 0) {}

    MZ_HD static double rate_of(const Settings& s) {
      const double local = s.trust_coefficient * *s.param_norm /
                           (*s.grad_norm + s.weight_decay * *s.param_norm + s.eps);
      if (!s.clip) return local;
      const double relative = local / s.time.rate();
      return relative > 1 ? 1 : relative;
    }

    MZ_HD void operator()(V& out, V g, const V& p) const {
      V decayed = g;
      if constexpr (kMode != 0) decayed = g + decay * p;
      out = adapts ? decayed * rate : g;
    }
  };

  static void cpu(std::span<const TensorListEntry> items, const void* settings,
                  const UpdateCall& call);
};

}  // namespace mezzo::optim
