// MZ_DEFINE_FUNCTION: the public functions of an elementwise op of one tensor without attributes.
#pragma once

#include "../../core/elementwise.h"
#include "../../core/elementwise_info.h"

/** Defines function(x) and its in-place form. The lists of tensor/elementwise/ use it. */
#define MZ_DEFINE_FUNCTION(function, Op)                        \
  Tensor function(const Tensor& x) { return apply<op::Op>(x); } \
  const Tensor& function##_(const Tensor& self) { return apply_in_place<op::Op>({}, self); }
