// What every update formula is made of: the places it writes, its modes, its row.
// Sees: ../multi_tensor.h, ../update_settings.h. Parsed by g++ and by nvcc.
// Read next: sgd.h, adam.h (formulas), ../updates_cpu.cpp (the loop around them).
#pragma once

#include "../../tensor/macros.h"
#include "../multi_tensor.h"
#include "../update_settings.h"

namespace mezzo::optim {

// An update is a struct that states: its name; kStates, how many states its formula takes; kWrites, which lists it writes; Settings; and
// Formula<V, mode>, which updates one element in the arithmetic of V. Each formula is written once, for every device and every width.
//
// It names its variants by a mode, known when the kernel starts: the loops then have no branches. (A factor of 0 is no substitute for leaving
// a term out: it would make NaN of an infinite weight.) A formula is built where it runs, so that settings may point into a device's memory.

/** Lists that an update writes; the low copy goes with the parameter. */
enum Writes : unsigned {
  kWritesParam = 1u << kParam | 1u << kLowCopy,
  kWritesStates = 7u << kState,
};

/** Where weight decay enters a formula. */
enum DecayMode : unsigned { kNoDecay, kL2Decay, kDecoupledDecay };
inline constexpr unsigned kNumDecays = 3;

constexpr unsigned decay_mode(double weight_decay, bool decoupled) {
  if (weight_decay == 0) return kNoDecay;
  return decoupled ? kDecoupledDecay : kL2Decay;
}

/** Calls f.operator()<m>() with the mode as a constant. */
template <class Update, unsigned kMode = 0, class F> void with_mode(unsigned mode, const F& f) {
  if (mode == kMode)
    f.template operator()<kMode>();
  else if constexpr (kMode + 1 < Update::kModes)
    with_mode<Update, kMode + 1>(mode, f);
}

/** The one row of an update. */
template <class Update>
inline constinit UpdateRow update_row = {Update::name, Update::kWrites, {&Update::cpu}};

}  // namespace mezzo::optim
