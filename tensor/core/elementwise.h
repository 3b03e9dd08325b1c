// Includes every elementwise op. Each op is one struct with its precision tag, formula and
// derivative; each file ends with the list of its ops. Parsed by g++ and by nvcc.
// See also: elementwise_info.h (from struct to OpInfo), ../ops/elementwise/pointwise.h (the public
// functions).
//
// Members of an op struct, with V as in ../ops/elementwise/formula.h; Attrs, if any, come last:
//   traits   what dispatch, tables and policies need
//   check    (optional) rejects attributes and operands before anything is allocated
//   forward  (operands...)
//   unary ops:   derivative(x, y) is the factor of the incoming gradient, or
//                gradient(g, x, y) is the whole gradient
//   other ops:   gradient<I>(g, operands...) is the gradient of operand I
#pragma once

#include "../ops/elementwise/activation.h"
#include "../ops/elementwise/arithmetic.h"
#include "../ops/elementwise/compare.h"
#include "../ops/elementwise/functions.h"
#include "../ops/elementwise/power.h"
#include "../ops/elementwise/rounding.h"
#include "../ops/elementwise/selection.h"
