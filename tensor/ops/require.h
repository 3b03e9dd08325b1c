// Argument checks shared by several families of ops.
#pragma once

#include <string_view>

#include "../core/op.h"

namespace mezzo {

/** Checks that an operand is defined, for code that reads a tensor before the op does. Errors:
 *  ValueError naming `op`. */
MZ_API void require_defined(std::string_view op, const Tensor& x);

/** Returns the floating dtype that all defined operands share. Errors: DtypeError naming `op` and
 *  the operands, with a hint. */
MZ_API DType require_one_floating_dtype(std::string_view op, Inputs in);

/** Returns the dtype that all defined operands share, floating or integer but not bool. Errors: as
 *  above. */
MZ_API DType require_one_number_dtype(std::string_view op, Inputs in);

/** Checks that all operands are defined and floating. Errors, naming `op`: ValueError for an
 *  undefined operand, DtypeError for one that is not floating. */
MZ_API void require_floating_operands(std::string_view op, Inputs in);

}  // namespace mezzo
