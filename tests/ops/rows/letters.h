// Operands with sizes that usually fit, for the fuzzer's calls of products.
#pragma once

#include <initializer_list>

#include "../row.h"

namespace rows {

/** A few letters with sizes, so that the sizes that a product requires to be equal often are. */
struct Letters {
  explicit Letters(FuzzDraw& draw) : d(draw) {
    for (std::int64_t& size : n) size = d.chance(0.05) ? 0 : 1 + d.below(5);
  }
  Tensor operator()(std::initializer_list<int> letters) {
    if (d.chance(0.07)) return d.tensor();
    Shape shape;
    for (const int i : letters) shape.push_back(n[i]);
    return d.tensor(shape, dtype);
  }
  FuzzDraw& d;
  mezzo::DType dtype = d.floating();
  std::int64_t n[6];
};

}  // namespace rows
