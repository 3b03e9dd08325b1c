// wide: conversion to the dtype that a backward function computes in. A gradient in public ops then
// rounds once, at its end, as the fused kernel does. wider_weight_gradient: the dtype to store a
// rounded gradient in.
#pragma once

#include <optional>

#include "../core/dispatch.h"
#include "../core/op.h"
#include "../core/tensor.h"

namespace mezzo {

/** Returns x in f32, or in f64 if it is f64. An undefined tensor stays undefined. */
inline Tensor wide(const Tensor& x) { return x.defined() ? x.to(compute_dtype(x.dtype())) : x; }

/** Returns f32 if the gradient of operand 1, which is rounded to its 16-bit dtype, may be stored in
 *  f32, because it is converted to that next; else nothing. */
inline std::optional<DType> wider_weight_gradient(const Saved& saved) {
  const bool widens =
      !grad_enabled() && is_low(saved.input_meta[1].dtype) && saved.gradient_dtype(1) == DType::f32;
  return widens ? std::optional(DType::f32) : std::nullopt;
}

}  // namespace mezzo
