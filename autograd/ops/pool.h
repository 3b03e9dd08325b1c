// Pooling: the greatest element or the mean of windows over the last 1, 2 or 3 dimensions.
// Sees: tensor, reduce.h, window.h.
// Read next: ../../tensor/ops/pool.h.
#pragma once

#include <optional>

#include "../../tensor/tensor.h"
#include "reduce.h"
#include "window.h"

namespace mezzo {

struct MaxPoolOptions {
  WindowSizes stride = {};   // not given: the kernel, so that windows lie side by side
  WindowSizes padding = 0;   // elements of -inf on either side, at most half the kernel
  WindowSizes dilation = 1;  // distance between the elements of a window
  bool ceil_mode = false;    // one more window where the last ones would leave a rest uncovered
};

/** The greatest element of each window; the first of several, nan before all.
 *  Shape: x [N,C,...] or [C,...]; pooled sizes become floor((in + 2 padding - dilation (kernel - 1) - 1) / stride) + 1; with ceil_mode the
 *  quotient is rounded up, except that the last window must start inside the input or the padding before it.
 *  Precision: follows the input, exact.   Gradient: to the element that was chosen.
 *  Errors: ShapeError for a wrong number of dimensions, an empty one, or a window that does not fit the padded input; ValueError for options out
 *  of range; DtypeError for integers. */
MZ_API Tensor max_pool1d(const Tensor& x, const WindowSizes& kernel, const MaxPoolOptions& options = {});
MZ_API Tensor max_pool2d(const Tensor& x, const WindowSizes& kernel, const MaxPoolOptions& options = {});
MZ_API Tensor max_pool3d(const Tensor& x, const WindowSizes& kernel, const MaxPoolOptions& options = {});

/** The same with the row-major position of each chosen element among the pooled dimensions of x, i64. */
MZ_API ValuesAndIndices max_pool1d_with_indices(const Tensor& x, const WindowSizes& kernel,
                                                const MaxPoolOptions& options = {});
MZ_API ValuesAndIndices max_pool2d_with_indices(const Tensor& x, const WindowSizes& kernel,
                                                const MaxPoolOptions& options = {});
MZ_API ValuesAndIndices max_pool3d_with_indices(const Tensor& x, const WindowSizes& kernel,
                                                const MaxPoolOptions& options = {});

struct AvgPoolOptions {
  WindowSizes stride = {};  // not given: the kernel
  WindowSizes padding = 0;  // zeros on either side, at most half the kernel
  bool ceil_mode = false;   // as in max_pool
  bool count_include_pad =
      true;  // padding counts as elements of the window; what ceil_mode adds behind it never does
  std::optional<std::int64_t> divisor_override = {};  // divide every sum by this
};

/** The mean of each window. Shape: as max_pool, without dilation.
 *  Precision: follows the input; f16, bf16 and f32 are summed in f32, one rounding after the division.
 *  Gradient: g divided as the mean was, to every element of the window, summed in f32 (f64).   Errors: as max_pool. */
MZ_API Tensor avg_pool1d(const Tensor& x, const WindowSizes& kernel, const AvgPoolOptions& options = {});
MZ_API Tensor avg_pool2d(const Tensor& x, const WindowSizes& kernel, const AvgPoolOptions& options = {});
MZ_API Tensor avg_pool3d(const Tensor& x, const WindowSizes& kernel, const AvgPoolOptions& options = {});

/** The mean of each of `output` windows along each dimension: window i of n covers floor(i in / n) up to ceil((i + 1) in / n).
 *  Shape: x [N,C,...] or [C,...]; pooled sizes become `output`. Precision, gradient and errors as avg_pool. */
MZ_API Tensor adaptive_avg_pool1d(const Tensor& x, const WindowSizes& output);
MZ_API Tensor adaptive_avg_pool2d(const Tensor& x, const WindowSizes& output);
MZ_API Tensor adaptive_avg_pool3d(const Tensor& x, const WindowSizes& output);

/** The greatest element of each of `output` windows along each dimension, which lie as in adaptive_avg_pool. Otherwise as max_pool. */
MZ_API Tensor adaptive_max_pool1d(const Tensor& x, const WindowSizes& output);
MZ_API Tensor adaptive_max_pool2d(const Tensor& x, const WindowSizes& output);
MZ_API Tensor adaptive_max_pool3d(const Tensor& x, const WindowSizes& output);

/** The same with the row-major position of each chosen element among the pooled dimensions of x, i64. */
MZ_API ValuesAndIndices adaptive_max_pool1d_with_indices(const Tensor& x, const WindowSizes& output);
MZ_API ValuesAndIndices adaptive_max_pool2d_with_indices(const Tensor& x, const WindowSizes& output);
MZ_API ValuesAndIndices adaptive_max_pool3d_with_indices(const Tensor& x, const WindowSizes& output);

}  // namespace mezzo
