#include "pool.h"

#include "../../tensor/core/dispatch.h"
#include "../../tensor/ops/pool.h"
#include "../../tensor/text/text.h"
#include "../grad_mode.h"

namespace mezzo {

namespace {

/** Returns sizes of three dimensions: those of the last `rank`, and `neutral` for the others. */
op::PoolSizes aligned(const WindowSizes& size, int rank, std::string_view op,
                      std::string_view option, std::int64_t neutral) {
  const op::Extent given = size.expanded(rank, op, option);
  op::PoolSizes sizes{neutral, neutral, neutral};
  for (std::size_t i = 3 - static_cast<std::size_t>(rank), k = 0; i < 3; ++i, ++k)
    sizes[i] = given[k];
  return sizes;
}

template <class Options>
op::PoolAttrs windows(std::string_view op, int rank, const WindowSizes& kernel,
                      const Options& options) {
  op::PoolAttrs attrs;
  attrs.kernel = aligned(kernel, rank, op, "kernel", 1);
  attrs.stride = aligned(options.stride.given() ? options.stride : kernel, rank, op, "stride", 1);
  attrs.padding = aligned(options.padding, rank, op, "padding", 0);
  attrs.ceil_mode = options.ceil_mode;
  return attrs;
}

op::PoolAttrs adaptive_windows(std::string_view op, int rank, const WindowSizes& output) {
  op::PoolAttrs attrs;
  attrs.adaptive = true;
  attrs.output = aligned(output, rank, op, "output size", 1);
  return attrs;
}

template <int N>
op::PoolAttrs max_windows(const WindowSizes& kernel, const MaxPoolOptions& options) {
  constexpr std::string_view kOp = op::MaxPool<N>::traits.name;
  op::PoolAttrs attrs = windows(kOp, N, kernel, options);
  attrs.dilation = aligned(options.dilation, N, kOp, "dilation", 1);
  return attrs;
}

/** Returns the values only. Indices are computed where the gradient needs them. */
template <class Op> Tensor values(op::PoolAttrs attrs, const Tensor& x) {
  attrs.with_indices = grad_enabled() && x.defined() && x.requires_grad();
  return apply_with<Op>(attrs, x);
}

template <class Op>
ValuesAndIndices values_and_indices(const op::PoolAttrs& attrs, const Tensor& x) {
  auto results = apply_all<Op>(attrs, x);
  return {std::move(results[0]), std::move(results[1])};
}

template <int N>
Tensor max_values(const Tensor& x, const WindowSizes& kernel, const MaxPoolOptions& options) {
  return values<op::MaxPool<N>>(max_windows<N>(kernel, options), x);
}

template <int N>
ValuesAndIndices max_both(const Tensor& x, const WindowSizes& kernel,
                          const MaxPoolOptions& options) {
  return values_and_indices<op::MaxPool<N>>(max_windows<N>(kernel, options), x);
}

template <int N>
Tensor means(const Tensor& x, const WindowSizes& kernel, const AvgPoolOptions& options) {
  constexpr std::string_view kOp = op::AvgPool<N>::traits.name;
  op::PoolAttrs attrs = windows(kOp, N, kernel, options);
  attrs.count_include_pad = options.count_include_pad;
  if (options.divisor_override && *options.divisor_override < 1)
    fail<ValueError>(kOp, {.what = "divisor_override is out of range",
                           .got = str(*options.divisor_override),
                           .expected = "1 or more"});
  attrs.divisor = options.divisor_override.value_or(0);
  return apply_with<op::AvgPool<N>>(attrs, x);
}

template <int N> Tensor adaptive_means(const Tensor& x, const WindowSizes& output) {
  using Op = op::AdaptiveAvgPool<N>;
  return apply_with<Op>(adaptive_windows(Op::traits.name, N, output), x);
}

template <int N> Tensor adaptive_values(const Tensor& x, const WindowSizes& output) {
  using Op = op::AdaptiveMaxPool<N>;
  return values<Op>(adaptive_windows(Op::traits.name, N, output), x);
}

template <int N> ValuesAndIndices adaptive_both(const Tensor& x, const WindowSizes& output) {
  using Op = op::AdaptiveMaxPool<N>;
  return values_and_indices<Op>(adaptive_windows(Op::traits.name, N, output), x);
}

}  // namespace

Tensor max_pool1d(const Tensor& x, const WindowSizes& kernel, const MaxPoolOptions& options) {
  return max_values<1>(x, kernel, options);
}
Tensor max_pool2d(const Tensor& x, const WindowSizes& kernel, const MaxPoolOptions& options) {
  return max_values<2>(x, kernel, options);
}
Tensor max_pool3d(const Tensor& x, const WindowSizes& kernel, const MaxPoolOptions& options) {
  return max_values<3>(x, kernel, options);
}

ValuesAndIndices max_pool1d_with_indices(const Tensor& x, const WindowSizes& kernel,
                                         const MaxPoolOptions& options) {
  return max_both<1>(x, kernel, options);
}
ValuesAndIndices max_pool2d_with_indices(const Tensor& x, const WindowSizes& kernel,
                                         const MaxPoolOptions& options) {
  return max_both<2>(x, kernel, options);
}
ValuesAndIndices max_pool3d_with_indices(const Tensor& x, const WindowSizes& kernel,
                                         const MaxPoolOptions& options) {
  return max_both<3>(x, kernel, options);
}

Tensor avg_pool1d(const Tensor& x, const WindowSizes& kernel, const AvgPoolOptions& options) {
  return means<1>(x, kernel, options);
}
Tensor avg_pool2d(const Tensor& x, const WindowSizes& kernel, const AvgPoolOptions& options) {
  return means<2>(x, kernel, options);
}
Tensor avg_pool3d(const Tensor& x, const WindowSizes& kernel, const AvgPoolOptions& options) {
  return means<3>(x, kernel, options);
}

Tensor adaptive_avg_pool1d(const Tensor& x, const WindowSizes& output) {
  return adaptive_means<1>(x, output);
}
Tensor adaptive_avg_pool2d(const Tensor& x, const WindowSizes& output) {
  return adaptive_means<2>(x, output);
}
Tensor adaptive_avg_pool3d(const Tensor& x, const WindowSizes& output) {
  return adaptive_means<3>(x, output);
}

Tensor adaptive_max_pool1d(const Tensor& x, const WindowSizes& output) {
  return adaptive_values<1>(x, output);
}
Tensor adaptive_max_pool2d(const Tensor& x, const WindowSizes& output) {
  return adaptive_values<2>(x, output);
}
Tensor adaptive_max_pool3d(const Tensor& x, const WindowSizes& output) {
  return adaptive_values<3>(x, output);
}

ValuesAndIndices adaptive_max_pool1d_with_indices(const Tensor& x, const WindowSizes& output) {
  return adaptive_both<1>(x, output);
}
ValuesAndIndices adaptive_max_pool2d_with_indices(const Tensor& x, const WindowSizes& output) {
  return adaptive_both<2>(x, output);
}
ValuesAndIndices adaptive_max_pool3d_with_indices(const Tensor& x, const WindowSizes& output) {
  return adaptive_both<3>(x, output);
}

}  // namespace mezzo
