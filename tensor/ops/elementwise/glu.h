// glu: the first half of the operand gated by the sigmoid of the second half.
#pragma once

#include "../../core/op.h"

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
