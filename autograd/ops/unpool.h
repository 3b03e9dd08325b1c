// Pooling made of other ops: power means of windows, and the inverse of max pooling.
// Sees: pool.h.
// Read next: ../../tensor/ops/unpool.h.
#pragma once

#include "pool.h"

namespace mezzo {

struct LpPoolOptions {
  WindowSizes stride = {};  // not given: the kernel
  bool ceil_mode = false;   // as in max_pool
};

/** (sum of x^p over each window)^(1/p). A window that ceil_mode lets hang over counts its mean for the missing elements.
 *  Shape: as avg_pool.   Precision: follows the input; f32 (f64) inside, one rounding.   Gradient: of these ops; 0 where the sum is 0.
 *  Errors: as avg_pool, and ValueError unless p > 0. */
MZ_API Tensor lp_pool1d(const Tensor& x, double p, const WindowSizes& kernel,
                        const LpPoolOptions& options = {});
MZ_API Tensor lp_pool2d(const Tensor& x, double p, const WindowSizes& kernel,
                        const LpPoolOptions& options = {});
MZ_API Tensor lp_pool3d(const Tensor& x, double p, const WindowSizes& kernel,
                        const LpPoolOptions& options = {});

struct MaxUnpoolOptions {
  WindowSizes stride = {};       // of the pooling; not given: the kernel
  WindowSizes padding = 0;       // of the pooling
  WindowSizes output_size = {};  // of the result; not given: (in - 1) stride - 2 padding + kernel
};

/** Zeros with every element of x at the position that max_pool_with_indices found it at; of several at one place the last stays.
 *  Shape: x and indices alike, [n,c,...] or [c,...].   Precision: follows x, exact.   Gradient: g at the positions.
 *  Errors: ShapeError, DtypeError; IndexError for a position outside the result. */
MZ_API Tensor max_unpool1d(const Tensor& x, const Tensor& indices, const WindowSizes& kernel,
                           const MaxUnpoolOptions& options = {});
MZ_API Tensor max_unpool2d(const Tensor& x, const Tensor& indices, const WindowSizes& kernel,
                           const MaxUnpoolOptions& options = {});
MZ_API Tensor max_unpool3d(const Tensor& x, const Tensor& indices, const WindowSizes& kernel,
                           const MaxUnpoolOptions& options = {});

}  // namespace mezzo
