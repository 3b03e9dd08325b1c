// Max pooling and average pooling over the last 1, 2 or 3 dimensions. ops.h explains the notation
// and the precision tags.
#pragma once

#include <optional>

#include "../../core/op.h"
#include "../../core/tensor.h"
#include "../conv/window.h"
#include "../reduce/reduce.h"
#include "pool_windows.h"

namespace mezzo {

/** Options of the max_pool functions. */
struct MaxPoolOptions {
  WindowSizes stride = {};   // distance between windows; not given: the kernel size
  WindowSizes padding = 0;   // elements of -inf on either side, at most half the kernel
  WindowSizes dilation = 1;  // distance between the elements of a window
  bool ceil_mode = false;    // add a window where the others leave elements uncovered
};

/** Returns the largest element of each window. Of equal elements the first is chosen; nan counts as
 *  largest.
 *  Shape: x [N,C,...] or [C,...]; pooled sizes become floor((in + 2 padding - dilation (kernel - 1)
 *  - 1) / stride) + 1. With ceil_mode the quotient is rounded up, except that the last window must
 *  start inside the input or the padding before it.
 *  Precision: match, exact.
 *  Gradient: g goes to the chosen element.
 *  Errors: ShapeError for a wrong number of dimensions, an empty one, or a window that does not fit
 *  the padded input; ValueError for options out of range; DtypeError for integers. */
MZ_API Tensor max_pool1d(const Tensor& x, const WindowSizes& kernel,
                         const MaxPoolOptions& options = {});
/** Does the same as max_pool1d over the last 2 dimensions. */
MZ_API Tensor max_pool2d(const Tensor& x, const WindowSizes& kernel,
                         const MaxPoolOptions& options = {});
/** Does the same as max_pool1d over the last 3 dimensions. */
MZ_API Tensor max_pool3d(const Tensor& x, const WindowSizes& kernel,
                         const MaxPoolOptions& options = {});

/** Returns the result of max_pool and the index (i64) of each chosen element, counted in row-major
 *  order over the pooled dimensions of x. */
MZ_API ValuesAndIndices max_pool1d_with_indices(const Tensor& x, const WindowSizes& kernel,
                                                const MaxPoolOptions& options = {});
/** Does the same as max_pool1d_with_indices over the last 2 dimensions. */
MZ_API ValuesAndIndices max_pool2d_with_indices(const Tensor& x, const WindowSizes& kernel,
                                                const MaxPoolOptions& options = {});
/** Does the same as max_pool1d_with_indices over the last 3 dimensions. */
MZ_API ValuesAndIndices max_pool3d_with_indices(const Tensor& x, const WindowSizes& kernel,
                                                const MaxPoolOptions& options = {});

/** Options of the avg_pool functions. */
struct AvgPoolOptions {
  WindowSizes stride = {};  // distance between windows; not given: the kernel size
  WindowSizes padding = 0;  // zeros on either side, at most half the kernel
  bool ceil_mode = false;   // as in max_pool
  /** Count padding as elements of the window. What ceil_mode adds beyond it is never counted. */
  bool count_include_pad = true;
  std::optional<std::int64_t> divisor_override = {};  // divide every sum by this
};

/** Returns the mean of each window.
 *  Shape: as max_pool, without dilation.
 *  Precision: match; f16, bf16 and f32 are summed in f32, one rounding after the division.
 *  Gradient: g, divided as the mean was, for every element of the window, summed in f32 (f64).
 *  Errors: as max_pool. */
MZ_API Tensor avg_pool1d(const Tensor& x, const WindowSizes& kernel,
                         const AvgPoolOptions& options = {});
/** Does the same as avg_pool1d over the last 2 dimensions. */
MZ_API Tensor avg_pool2d(const Tensor& x, const WindowSizes& kernel,
                         const AvgPoolOptions& options = {});
/** Does the same as avg_pool1d over the last 3 dimensions. */
MZ_API Tensor avg_pool3d(const Tensor& x, const WindowSizes& kernel,
                         const AvgPoolOptions& options = {});

/** Returns the mean of each of `output` windows along each dimension: window i of n covers floor(i
 *  in / n) up to ceil((i + 1) in / n).
 *  Shape: x [N,C,...] or [C,...]; pooled sizes become `output`.
 *  Precision, gradient and errors: as avg_pool. */
MZ_API Tensor adaptive_avg_pool1d(const Tensor& x, const WindowSizes& output);
/** Does the same as adaptive_avg_pool1d over the last 2 dimensions. */
MZ_API Tensor adaptive_avg_pool2d(const Tensor& x, const WindowSizes& output);
/** Does the same as adaptive_avg_pool1d over the last 3 dimensions. */
MZ_API Tensor adaptive_avg_pool3d(const Tensor& x, const WindowSizes& output);

/** Returns the largest element of each of `output` windows along each dimension, which are those of
 *  adaptive_avg_pool. Otherwise as max_pool. */
MZ_API Tensor adaptive_max_pool1d(const Tensor& x, const WindowSizes& output);
/** Does the same as adaptive_max_pool1d over the last 2 dimensions. */
MZ_API Tensor adaptive_max_pool2d(const Tensor& x, const WindowSizes& output);
/** Does the same as adaptive_max_pool1d over the last 3 dimensions. */
MZ_API Tensor adaptive_max_pool3d(const Tensor& x, const WindowSizes& output);

/** Returns the result of adaptive_max_pool and the index (i64) of each chosen element, counted in
 *  row-major order over the pooled dimensions of x. */
MZ_API ValuesAndIndices adaptive_max_pool1d_with_indices(const Tensor& x,
                                                         const WindowSizes& output);
/** Does the same as adaptive_max_pool1d_with_indices over the last 2 dimensions. */
MZ_API ValuesAndIndices adaptive_max_pool2d_with_indices(const Tensor& x,
                                                         const WindowSizes& output);
/** Does the same as adaptive_max_pool1d_with_indices over the last 3 dimensions. */
MZ_API ValuesAndIndices adaptive_max_pool3d_with_indices(const Tensor& x,
                                                         const WindowSizes& output);

}  // namespace mezzo

namespace mezzo::op {

/** Returns the last `rank` sizes of a shape, right-aligned; the leading entries are 1. */
PoolSizes pooled_dims(const Shape& shape, int rank);

namespace detail {
constexpr std::string_view by_rank(int rank, std::string_view one, std::string_view two,
                                   std::string_view three) {
  return rank == 1 ? one : rank == 2 ? two : three;
}
}  // namespace detail

/** Greatest element of each window and its position, as the attributes say. The first of equal
 *  elements wins; nan is greater than any number. */
template <int N> struct MaxPool {
  static constexpr OpTraits traits{
      .name = detail::by_rank(N, "max_pool1d", "max_pool2d", "max_pool3d"),
      .precision = Precision::match,
      .summary = "greatest element of each window",
      .outputs = 2,
      .needs = {output(1)},
      .channels_last = ChannelsLast::like_first};
  using Attrs = PoolAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** MaxPool with windows that divide the input into a given number of parts. */
template <int N> struct AdaptiveMaxPool {
  static constexpr OpTraits traits{
      .name =
          detail::by_rank(N, "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d"),
      .precision = Precision::match,
      .summary = "greatest element of each window, for a given output size",
      .outputs = 2,
      .needs = {output(1)},
      .channels_last = ChannelsLast::like_first};
  using Attrs = PoolAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Gradient of max pooling: each element of g is added at its position to zeros. Operands: g,
 *  positions. Sums run in f32 (f64) and are rounded once. */
struct MaxPoolBackward {
  static constexpr OpTraits traits{.name = "max_pool_backward",
                                   .precision = Precision::match,
                                   .inputs = 2,
                                   .needs = {input(1)},
                                   .internal = true};
  struct Attrs {
    PoolAttrs windows;                               // of the forward op
    PoolSizes sizes{1, 1, 1};                        // pooled dimensions of the forward input
    int rank = 2;                                    // number of pooled dimensions
    MemoryFormat format = MemoryFormat::contiguous;  // of the forward input
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Mean of each window. Sums run in f32 (f64) and are rounded once, after the division. */
template <int N> struct AvgPool {
  static constexpr OpTraits traits{
      .name = detail::by_rank(N, "avg_pool1d", "avg_pool2d", "avg_pool3d"),
      .precision = Precision::match,
      .summary = "mean of each window",
      .channels_last = ChannelsLast::like_first};
  using Attrs = PoolAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** AvgPool with windows that divide the input into a given number of parts. */
template <int N> struct AdaptiveAvgPool {
  static constexpr OpTraits traits{
      .name =
          detail::by_rank(N, "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"),
      .precision = Precision::match,
      .summary = "mean of each window, for a given output size",
      .channels_last = ChannelsLast::like_first};
  using Attrs = PoolAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Gradient of mean pooling: each element of g, divided, is added to all elements of its window.
 *  Sums run in f32 (f64) and are rounded once. */
template <int N> struct AvgPoolBackward {
  static constexpr OpTraits traits{
      .name =
          detail::by_rank(N, "avg_pool1d_backward", "avg_pool2d_backward", "avg_pool3d_backward"),
      .precision = Precision::match,
      .internal = true};
  struct Attrs {
    PoolAttrs windows;
    PoolSizes sizes{1, 1, 1};                        // pooled dimensions of the forward input
    MemoryFormat format = MemoryFormat::contiguous;  // of the forward input
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

using PoolOps = type_list<AdaptiveAvgPool<1>, AdaptiveAvgPool<2>, AdaptiveAvgPool<3>,
                          AdaptiveMaxPool<1>, AdaptiveMaxPool<2>, AdaptiveMaxPool<3>, AvgPool<1>,
                          AvgPool<2>, AvgPool<3>, AvgPoolBackward<1>, AvgPoolBackward<2>,
                          AvgPoolBackward<3>, MaxPool<1>, MaxPool<2>, MaxPool<3>, MaxPoolBackward>;

}  // namespace mezzo::op
