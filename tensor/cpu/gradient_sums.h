// GradientSums: what the gradients of every normalisation over channels are made of.
// Sees: ../macros.h; parsed by nvcc too.
// Read next: channel_runs.h, ../../cuda/kernels/channel_norm.h (the users).
#pragma once

#include "../macros.h"

namespace mezzo::cpu_kernels {

/** Two sums over the elements of a run or channel: of g, and of g * (x - mean). */
template <class C> struct GradientSums {
  C g = 0, gx = 0;
  MZ_HD friend GradientSums operator+(GradientSums a, GradientSums b) { return {a.g + b.g, a.gx + b.gx}; }
};

}  // namespace mezzo::cpu_kernels
