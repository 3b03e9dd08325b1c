// GradientSums: the sums from which the gradients of all normalisations over channels are computed.
// Parsed by g++ and by nvcc.
#pragma once

#include "../../core/macros.h"

namespace mezzo::cpu_kernels {

/** Two sums over the elements of a run or channel: of g, and of g * (x - mean). */
template <class C> struct GradientSums {
  C g = 0, gx = 0;
  MZ_HD friend GradientSums operator+(GradientSums a, GradientSums b) {
    return {a.g + b.g, a.gx + b.gx};
  }
};

}  // namespace mezzo::cpu_kernels
