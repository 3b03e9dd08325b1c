// Pooling composites: power means of windows, and the inverse of max pooling.
#pragma once

#include "pool.h"

namespace mezzo::op {

/** (sum of x^p over a window)^(1/p). */
template <int N> struct LpPool {
  static constexpr OpTraits traits{
      .name = detail::by_rank(N, "lp_pool1d", "lp_pool2d", "lp_pool3d"),
      .precision = Precision::match,
      .summary = "p-norm of each window"};
  struct Attrs {
    double p = 2;
    PoolAttrs windows;
  };
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

/** Zeros with each element of x at its position among the pooled dimensions. Operands: x,
 *  positions. */
template <int N> struct MaxUnpool {
  static constexpr OpTraits traits{
      .name = detail::by_rank(N, "max_unpool1d", "max_unpool2d", "max_unpool3d"),
      .precision = Precision::match,
      .summary = "elements at the indices that max pooling returned, zeros elsewhere",
      .inputs = 2,
      .integers = Integers::keep,
      .booleans = true};
  struct Attrs {
    PoolSizes sizes{1, 1, 1};  // of the result's last dimensions, right-aligned
  };
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

using UnpoolOps =
    type_list<LpPool<1>, LpPool<2>, LpPool<3>, MaxUnpool<1>, MaxUnpool<2>, MaxUnpool<3>>;

}  // namespace mezzo::op
