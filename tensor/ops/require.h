// Argument checks that several families of ops share.
// Sees: op.h.
// Read next: matmul.cpp (a user).
#pragma once

#include <string_view>

#include "../op.h"

namespace mezzo {

/** Errors: ValueError naming `op` for an undefined operand: what reads a tensor before the op itself does asks this first. */
MZ_API void require_defined(std::string_view op, const Tensor& x);

/** The one floating dtype that all defined operands share. Errors: DtypeError naming them, with the cure. */
MZ_API DType require_one_floating_dtype(std::string_view op, Inputs in);

/** The same where integers are taken too; bools are not. */
MZ_API DType require_one_number_dtype(std::string_view op, Inputs in);

/** Errors: ValueError where an operand is undefined, DtypeError where one is not floating; naming `op`. */
MZ_API void require_floating_operands(std::string_view op, Inputs in);

}  // namespace mezzo
