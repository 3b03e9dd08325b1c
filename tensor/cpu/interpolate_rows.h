// The map of a resizing along one dimension as sparse rows.
#pragma once

#include "interpolate_terms.h"
#include "separable.h"

namespace mezzo::cpu_kernels {

/** Returns the map along spatial dimension d of an operand with `operands` elements there. */
template <class C>
SparseRows<C> interpolation_rows(const op::InterpolateAttrs& attrs, std::size_t d,
                                 std::int64_t operands) {
  SparseRows<C> rows(operands);
  const Interpolation<C> map(attrs, d, operands);
  for (std::int64_t o = 0; o < map.r.out; ++o) {
    map.for_each_term(o, [&rows](std::int64_t from, C by) { rows.add(from, by); });
    rows.finish_row();
  }
  return rows;
}

}  // namespace mezzo::cpu_kernels
