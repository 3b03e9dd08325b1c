// Argument checks shared by the normalisation ops.
#pragma once

#include "../../core/op.h"

namespace mezzo::op {

/** Checks that the input is floating. Errors: DtypeError naming `op`. */
void check_floating_input(const Tensor& x, std::string_view op);

/** Checks that the input is [N, C] or [N, C, ...]. Errors: ShapeError naming `op`. */
void check_has_channels(const Tensor& x, std::string_view op);

/** Checks that optional values are floating and have the given shape. Errors: DtypeError,
 *  ShapeError naming `what`. */
void check_values(const Tensor& x, const Tensor& values, const Shape& shape, const char* what,
                  std::string_view op);

/** Checks x, weight, bias, mean, variance and batch counter of batch norm; all but x are optional,
 *  and the list may end before the counter. Errors: DtypeError, ShapeError naming `op`. */
void check_batch_norm_operands(Inputs in, std::string_view op);

/** Checks an option. Errors: ValueError naming `op` and `name` below 0. */
void check_at_least_zero(double value, const char* name, const char* op);

/** Throws before anything is computed if an in-place update of the statistics would throw. Errors:
 *  ValueError naming `op`. */
void check_running(const Tensor& running, const char* op);

}  // namespace mezzo::op
