// Pooling over 1, 2 or 3 dimensions: the maximum or the mean of each window, and their gradients.
#pragma once

#include "../core/op.h"
#include "pool_windows.h"

namespace mezzo::op {

/** Returns the last `rank` sizes of a shape, right-aligned; the leading entries are 1. */
PoolSizes pooled_dims(const Shape& shape, int rank);

namespace detail {
constexpr std::string_view by_rank(int rank, std::string_view one, std::string_view two,
                                   std::string_view three) {
  return rank == 1 ? one : rank == 2 ? two : three;
}
}  // namespace detail

/** Greatest element of each window and its row-major index among the pooled dimensions (i64). The
 *  first of equal elements wins; nan is greater than any number. */
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
