// Argument checks that the normalising ops share.
// Sees: op.h.
// Read next: batch_norm.h, group_norm.h.
#pragma once

#include "../op.h"

namespace mezzo::op {

/** The input is floating. Errors: DtypeError naming `op`. */
void check_floating_input(const Tensor& x, std::string_view op);

/** The input is [N, C] or [N, C, ...]. Errors: ShapeError. */
void check_has_channels(const Tensor& x, std::string_view op);

/** Optional floating values of the given shape. Errors: DtypeError, ShapeError naming `what`. */
void check_values(const Tensor& x, const Tensor& values, const Shape& shape, const char* what,
                  std::string_view op);

}  // namespace mezzo::op
