// What the composites of losses share: checks of operands, and reducing terms to the loss.
// Sees: the public ops.
// Read next: loss.cpp.
#pragma once

#include <string_view>

#include "../../tensor/op.h"
#include "../../tensor/reduction.h"

namespace mezzo {

/** Checks predictions and targets that meet element by element. Errors, naming `op`: DtypeError for integers, ShapeError where they do not
 *  broadcast. Where they do though their shapes differ, says so once for each pair of shapes: it is rarely meant. */
void require_comparable(std::string_view op, const Tensor& x, const Tensor& target);

/** Errors, naming `op`: DtypeError unless floating. */
void require_floating(std::string_view op, const Tensor& x);

/** `terms` reduced and rounded to `dtype`, once. */
Tensor reduce_terms(const Tensor& terms, Reduction reduction, DType dtype);

/** terms * weight, where there is a weight; it is a constant. Errors: ShapeError naming `op` where it does not broadcast to the terms. */
Tensor times_weight(std::string_view op, const Tensor& terms, const Tensor& weight);

/** Errors: ShapeError naming `op` and the operand where `weight` does not broadcast to `shape`. */
void require_weight_fits(std::string_view op, std::string_view operand, const Tensor& weight,
                         const Shape& shape);

}  // namespace mezzo
