// Every elementwise op: one struct each, stating its precision tag, its formula and its derivative, and the lists of them by family.
// Sees: elementwise/*.h. Parsed by g++ and by nvcc.
// Read next: elementwise/functions.h (the formulas), elementwise_row.h (from struct to row), ../autograd/ops/pointwise.h (the functions).
//
// What a struct holds, with V as in elementwise/formula.h; Attrs, where there are any, come last:
//   traits   what dispatch, tables and policies know
//   check    (optional) refuses attributes and operands before anything is allocated
//   forward  (operands...)
//   unary:   derivative(x, y) is the factor of the incoming gradient, or gradient(g, x, y) the whole gradient
//   others:  gradient<I>(g, operands...) is the gradient of operand I
#pragma once

#include "elementwise/activation.h"
#include "elementwise/arithmetic.h"
#include "elementwise/compare.h"
#include "elementwise/functions.h"
#include "elementwise/power.h"
#include "elementwise/rounding.h"
#include "elementwise/selection.h"
