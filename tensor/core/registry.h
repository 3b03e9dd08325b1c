// The registry: the OpInfo of every op of the library. Tests, tables and policies iterate it.
#pragma once

#include <span>
#include <string_view>

#include "op.h"

namespace mezzo {

/** Returns the OpInfo of all ops, ascending by name. */
MZ_API std::span<OpInfo* const> all_ops();

/** Returns the op of that name; null if there is none. */
MZ_API OpInfo* find_op(std::string_view name);

/** Returns the OpInfo of each op in a list. Headers of tensor/ops have one, which op::NAME_ops()
 *  returns to the registry; ../ops/list.inc has the names. */
template <class... Ops> std::span<OpInfo* const> infos_of(type_list<Ops...>) {
  static constinit OpInfo* const infos[] = {&op_info<Ops>...};
  return infos;
}

/** Returns true if the operands of an op that carry values (not indices or masks) may have
 *  `dtype`. */
MZ_API bool takes(const OpInfo& info, DType dtype);

}  // namespace mezzo
