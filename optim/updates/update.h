// Common parts of the update formulas: the lists they write, their modes, their UpdateRow. Parsed
// by g++ and by nvcc.
#pragma once

#include "../../tensor/core/macros.h"
#include "../step/step_record.h"
#include "../step/tensor_list.h"

namespace mezzo::optim {

// An update is a struct with: its name; kStates, the number of states of its formula; kWrites, the
// lists it writes; Settings, which are the options of the group and what changes with the step;
// kModes and mode(); and Formula<V, mode>, which updates one element in the arithmetic of V. Each
// formula is written once, for every device and every dtype. Optionally kUnread, the lists whose
// values the formula does not use, and kMeasures, if it may have to compute norms:
// UpdateCall::norms.
//
// The mode is a template parameter, so the loops have no branches. (Setting a factor to 0 cannot
// replace leaving a term out: it would turn an infinite weight into NaN.) A formula is constructed
// where it runs, so settings may point to a device's memory.

/** Lists that an update writes; the low copy is written with the parameter. */
enum Writes : unsigned {
  kWritesParam = 1u << kParam | 1u << kLowCopy,
  kWritesStates = 7u << kState,
};

/** What a formula gets for a parameter: the options of its group, and what changes with the step.
 */
template <class Options> struct SettingsOf : Options {
  UpdateTime time = {};  // the present rate, which replaces the option lr, and the counter
  bool fresh = false;    // the states are new

  bool operator==(const SettingsOf&) const = default;
};

/** Where weight decay enters a formula. */
enum DecayMode : unsigned { kNoDecay, kL2Decay, kDecoupledDecay };
inline constexpr unsigned kNumDecays = 3;

/** Returns the DecayMode of these options. */
constexpr unsigned decay_mode(double weight_decay, bool decoupled) {
  if (weight_decay == 0) return kNoDecay;
  return decoupled ? kDecoupledDecay : kL2Decay;
}

/** Returns the factor of the gradient: -1 for an optimizer that maximizes. */
template <class V, class Settings> MZ_HD V sign_of(const Settings& s) {
  return s.maximize ? V(-1) : V(1);
}

/** What formulas with running means of the gradient and of its square share. Settings have betas,
 *  eps, weight_decay, maximize and time. */
template <class V> struct RunningMeans {
  V sign, lr, beta1, fresh1, beta2, fresh2, eps, decay;

  template <class Settings>
  MZ_HD explicit RunningMeans(const Settings& s)
      : sign(sign_of<V>(s)),
        lr(static_cast<V>(s.time.rate())),
        beta1(static_cast<V>(s.betas.first)),
        fresh1(static_cast<V>(1 - s.betas.first)),
        beta2(static_cast<V>(s.betas.second)),
        fresh2(static_cast<V>(1 - s.betas.second)),
        eps(static_cast<V>(s.eps)),
        decay(static_cast<V>(s.weight_decay)) {}

  /** Adds L2 regularisation to the gradient g and updates its means m and v. */
  template <bool kHasL2> MZ_HD void update(V p, V& g, V& m, V& v) const {
    g = sign * g;
    if constexpr (kHasL2) g = g + decay * p;
    m = beta1 * m + fresh1 * g;
    v = beta2 * v + fresh2 * g * g;
  }
};

/** Calls f.operator()<m>() with the mode as a constant. */
template <class Update, unsigned kMode = 0, class F> void with_mode(unsigned mode, const F& f) {
  if (mode == kMode)
    f.template operator()<kMode>();
  else if constexpr (kMode + 1 < Update::kModes)
    with_mode<Update, kMode + 1>(mode, f);
}

/** The UpdateRow of an update: its name, its lists and its kernels. */
template <class Update>
inline constinit UpdateRow update_row = {Update::name, Update::kWrites, {&Update::cpu}};

}  // namespace mezzo::optim
