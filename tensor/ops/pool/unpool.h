// Power-average pooling, and max unpooling. ops.h explains the notation and the precision tags.
#pragma once

#include "pool.h"

namespace mezzo {

/** Options of the lp_pool functions. */
struct LpPoolOptions {
  WindowSizes stride = {};  // distance between windows; not given: the kernel size
  bool ceil_mode = false;   // as in max_pool
};

/** Returns the p-norm of each window, (sum of |x|^p)^(1/p), for p = inf the greatest |x|. Unlike
 *  PyTorch, which takes powers of x. A window that extends beyond the input because of ceil_mode
 *  counts the mean of its powers for the missing elements.
 *  Shape: as avg_pool.
 *  Precision: match; computed in f32 (f64), one rounding.
 *  Gradient: the derivative; 0 where the sum is 0.
 *  Errors: as avg_pool, and ValueError unless p > 0. */
MZ_API Tensor lp_pool1d(const Tensor& x, double p, const WindowSizes& kernel,
                        const LpPoolOptions& options = {});
/** Does the same as lp_pool1d over the last 2 dimensions. */
MZ_API Tensor lp_pool2d(const Tensor& x, double p, const WindowSizes& kernel,
                        const LpPoolOptions& options = {});
/** Does the same as lp_pool1d over the last 3 dimensions. */
MZ_API Tensor lp_pool3d(const Tensor& x, double p, const WindowSizes& kernel,
                        const LpPoolOptions& options = {});

/** Options of the max_unpool functions. */
struct MaxUnpoolOptions {
  WindowSizes stride = {};       // of the pooling; not given: the kernel size
  WindowSizes padding = 0;       // of the pooling
  WindowSizes output_size = {};  // of the result; not given: (in - 1) stride - 2 padding + kernel
};

/** Returns zeros, with every element of x at the index that max_pool_with_indices returned for it.
 *  Where several have one index, the last is kept.
 *  Shape: x and indices have one shape, [n,c,...] or [c,...].
 *  Precision: match, exact.
 *  Gradient: g at the indices.
 *  Errors: ShapeError, DtypeError; IndexError for an index outside the result. */
MZ_API Tensor max_unpool1d(const Tensor& x, const Tensor& indices, const WindowSizes& kernel,
                           const MaxUnpoolOptions& options = {});
/** Does the same as max_unpool1d over the last 2 dimensions. */
MZ_API Tensor max_unpool2d(const Tensor& x, const Tensor& indices, const WindowSizes& kernel,
                           const MaxUnpoolOptions& options = {});
/** Does the same as max_unpool1d over the last 3 dimensions. */
MZ_API Tensor max_unpool3d(const Tensor& x, const Tensor& indices, const WindowSizes& kernel,
                           const MaxUnpoolOptions& options = {});

}  // namespace mezzo

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
