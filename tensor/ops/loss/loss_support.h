// Shared parts of the losses: checks of operands, and reducing terms to the loss.
#pragma once

#include <string_view>

#include "../../core/dispatch.h"
#include "../../core/op.h"
#include "../../core/reduce_options.h"
#include "../wide.h"
#include "loss.h"

namespace mezzo {

/** Checks predictions and targets of an elementwise loss. Warns once per pair of shapes if the
 *  shapes differ but broadcast, because that is rarely intended. Errors in the name of `op`:
 *  DtypeError for integers, ShapeError where the shapes do not broadcast. */
void require_comparable(std::string_view op, const Tensor& x, const Tensor& target);

/** Returns the terms of a loss of prediction and target. Errors: as above, and those of
 *  require_plain_reduction. */
template <class Term>
Tensor terms_of(std::string_view op, Inputs in, Reduction reduction,
                const AttrsOf<Term>& attrs = {}) {
  op::require_plain_reduction(op, reduction);
  require_comparable(op, in[0], in[1]);
  return apply_with<Term>(attrs, wide(in[0]), wide(in[1]));
}

/** Throws DtypeError in the name of `op` unless x has a floating-point dtype. */
void require_floating(std::string_view op, const Tensor& x);

/** Returns `terms` reduced and rounded once to `dtype`. */
Tensor reduce_terms(const Tensor& terms, Reduction reduction, DType dtype);

/** Returns terms * weight, or terms for an undefined weight. The weight is a constant. Errors:
 *  ShapeError in the name of `op` where it does not broadcast to the terms. */
Tensor times_weight(std::string_view op, const Tensor& terms, const Tensor& weight);

/** Throws ShapeError naming `op` and the operand where `weight` does not broadcast to `shape`. */
void require_weight_fits(std::string_view op, std::string_view operand, const Tensor& weight,
                         const Shape& shape);

}  // namespace mezzo
