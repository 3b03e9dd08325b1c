// The registry: every op of the library, as rows. Tests, tables and policies iterate it.
// Sees: op.h.
// Read next: registry.cpp (the lists it is made from).
#pragma once

#include <span>
#include <string_view>

#include "op.h"

namespace mezzo {

/** All rows, ascending by name. */
MZ_API std::span<OpRow* const> all_ops();

/** The row of that name; null when there is none. */
MZ_API OpRow* find_op(std::string_view name);

/** Whether the operands of an op that carry values (not indices or masks) may have that dtype. */
MZ_API bool takes(const OpRow& row, DType dtype);

}  // namespace mezzo
