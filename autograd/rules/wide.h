// wide: conversion to the dtype that a backward function computes in. A gradient in public ops then
// rounds once, at its end, as the fused kernel does.
#pragma once

#include "../../tensor/core/tensor.h"

namespace mezzo {

/** Returns x in f32, or in f64 if it is f64. An undefined tensor stays undefined. */
inline Tensor wide(const Tensor& x) { return x.defined() ? x.to(compute_dtype(x.dtype())) : x; }

}  // namespace mezzo
