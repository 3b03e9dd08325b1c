// Elementwise functions, by family, and what they have in common.
//
// They take any shape; several operands broadcast (right-aligned, sizes equal or 1). Functions of
// one operand convert integers to f32 unless they say that integers stay integers. f16 and bf16 are
// computed in f32 and rounded once. A trailing _ marks the in-place form: it overwrites the first
// operand and returns it. The result has that operand's shape and dtype. The operand must not be a
// leaf that records gradients. ops.h explains the precision tags.
#pragma once

#include "activation.h"
#include "arithmetic.h"
#include "compare.h"
#include "functions.h"
#include "power.h"
#include "rounding.h"
#include "selection.h"
