// Rows of elementwise ops.
#pragma once

#include "../row.h"
#include "smoke_lines.h"

namespace rows {

/** Starts the row of a function of one tensor; BOTH: that has a form in place. */
#define UNARY(name) row(#name, CALL(name(x[0]))).fuzz(unary)
#define UNARY_BOTH(name) row(#name, CALL(name(x[0]))).in_place(CALL(name##_(x[0]))).fuzz(unary)

/** Starts the row of a function of two tensors; BOTH: that has a form in place. */
#define BINARY(name) row(#name, CALL(name(x[0], x[1]))).fuzz(binary)
#define BINARY_BOTH(name) \
  row(#name, CALL(name(x[0], x[1]))).in_place(CALL(name##_(x[0], x[1]))).fuzz(binary)

/** The golden case of special numbers: zeros, infinities, nan. */
inline Golden edges(const std::string& op) { return {"edges", "torch." + op, "given(EDGES)"}; }

inline double real(FuzzDraw& d) { return d.real(); }

/** Shapes of three operands that broadcast. */
inline const std::vector<std::vector<Shape>> kTernaryShapes{{{3, 4}, {3, 4}, {3, 4}},
                                                            {{4}, {3, 4}, Shape{}},
                                                            {{3, 1}, {4}, {3, 4}},
                                                            {{0}, {0}, {0}},
                                                            {Shape{}, {5}, {5}}};

}  // namespace rows
