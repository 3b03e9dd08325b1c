// Elementwise functions, by family.
// Sees: the headers below.
// Read next: arithmetic.h, then operators.h; ../../tensor/elementwise.h (the formulas).
//
// All of them take any shape; several operands broadcast (right-aligned, sizes equal or 1). Functions of one operand turn integers into f32
// unless they say that integers stay. f16 and bf16 are computed in f32 and rounded once. A trailing _ writes over the first operand and
// returns it: the result has its shape and dtype, and it must not be a leaf that records gradients.
#pragma once

#include "activation.h"
#include "arithmetic.h"
#include "compare.h"
#include "functions.h"
#include "power.h"
#include "rounding.h"
#include "selection.h"
