// glu: the first half of the operand gated by the sigmoid of the second half.
#pragma once

#include "../../core/op.h"

namespace mezzo {

/** Options of glu. */
struct GluOptions {
  std::int64_t dim = -1;  // the dimension to split in halves
};

/** Returns a * sigmoid(b), where a and b are the halves of x along dim.
 *  Shape: x's, with half its size along dim.
 *  Gradient: sigmoid(b) for a, a sigmoid'(b) for b.
 *  Errors: ShapeError when the size is odd, IndexError.
 *  Source: Dauphin et al., Language modeling with gated conv nets (2017). */
MZ_API Tensor glu(const Tensor& x, const GluOptions& options = {});

}  // namespace mezzo

namespace mezzo::op {

struct Glu {
  static constexpr OpTraits traits{
      .name = "glu",
      .precision = Precision::match,
      .summary = "a * sigmoid(b) with a, b the halves of x along a dimension"};
  struct Attrs {
    std::int64_t dim = -1;
  };
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

using GluOps = type_list<Glu>;

}  // namespace mezzo::op
