#include "unpool.h"

#include "../../tensor/core/checked_size.h"
#include "../../tensor/core/dispatch.h"
#include "../../tensor/ops/require.h"
#include "../../tensor/ops/unpool.h"
#include "../../tensor/text/text.h"

namespace mezzo {

namespace {

/** Returns sizes of three dimensions: those of the last N, and `neutral` for the others. */
template <int N>
op::PoolSizes aligned(const WindowSizes& size, std::string_view op, std::string_view option,
                      std::int64_t neutral) {
  const op::Extent given = size.expanded(N, op, option);
  op::PoolSizes sizes{neutral, neutral, neutral};
  for (std::size_t i = 3 - N, k = 0; i < 3; ++i, ++k) sizes[i] = given[k];
  return sizes;
}

template <int N>
Tensor power_means(const Tensor& x, double p, const WindowSizes& kernel,
                   const LpPoolOptions& options) {
  constexpr std::string_view kOp = op::LpPool<N>::traits.name;
  op::PoolAttrs windows;
  windows.kernel = aligned<N>(kernel, kOp, "kernel", 1);
  windows.stride = aligned<N>(options.stride.given() ? options.stride : kernel, kOp, "stride", 1);
  windows.ceil_mode = options.ceil_mode;
  return apply_with<op::LpPool<N>>({p, windows}, x);
}

template <int N>
Tensor unpooled(const Tensor& x, const Tensor& indices, const WindowSizes& kernel,
                const MaxUnpoolOptions& options) {
  constexpr std::string_view kOp = op::MaxUnpool<N>::traits.name;
  require_defined(kOp, x);
  typename op::MaxUnpool<N>::Attrs attrs;
  const op::PoolSizes k = aligned<N>(kernel, kOp, "kernel", 1),
                      s = aligned<N>(options.stride.given() ? options.stride : kernel, kOp,
                                     "stride", 1),
                      p = aligned<N>(options.padding, kOp, "padding", 0),
                      in = op::pooled_dims(x.shape(), std::min(N, x.dim()));
  if (options.output_size.given())
    attrs.sizes = aligned<N>(options.output_size, kOp, "output_size", 1);
  else
    for (std::size_t d = 3 - N; d < 3; ++d) {
      const WideSize size = (WideSize{in[d]} - 1) * s[d] - 2 * WideSize{p[d]} + k[d];
      attrs.sizes[d] = size < 1 ? 0 : checked_size(size, kOp);
    }
  for (const std::int64_t size : attrs.sizes)
    if (size < 1)
      fail<ShapeError>(
          kOp,
          {.what = "the result would be empty", .got = str(x), .expected = "sizes of 1 or more"});
  return apply_with<op::MaxUnpool<N>>(attrs, x, indices);
}

}  // namespace

Tensor lp_pool1d(const Tensor& x, double p, const WindowSizes& kernel,
                 const LpPoolOptions& options) {
  return power_means<1>(x, p, kernel, options);
}
Tensor lp_pool2d(const Tensor& x, double p, const WindowSizes& kernel,
                 const LpPoolOptions& options) {
  return power_means<2>(x, p, kernel, options);
}
Tensor lp_pool3d(const Tensor& x, double p, const WindowSizes& kernel,
                 const LpPoolOptions& options) {
  return power_means<3>(x, p, kernel, options);
}

Tensor max_unpool1d(const Tensor& x, const Tensor& indices, const WindowSizes& kernel,
                    const MaxUnpoolOptions& options) {
  return unpooled<1>(x, indices, kernel, options);
}
Tensor max_unpool2d(const Tensor& x, const Tensor& indices, const WindowSizes& kernel,
                    const MaxUnpoolOptions& options) {
  return unpooled<2>(x, indices, kernel, options);
}
Tensor max_unpool3d(const Tensor& x, const Tensor& indices, const WindowSizes& kernel,
                    const MaxUnpoolOptions& options) {
  return unpooled<3>(x, indices, kernel, options);
}

}  // namespace mezzo
