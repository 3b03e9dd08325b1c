// Gradients and public functions of the ops in unpool.h.
#include "unpool.h"

#include <algorithm>
#include <vector>

#include "../../core/checked_size.h"
#include "../../core/dispatch.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../create.h"
#include "../elementwise/operators.h"
#include "../index/gather.h"
#include "../reduce/statistics.h"
#include "../require.h"
#include "../shape/place.h"
#include "../wide.h"

namespace mezzo::op {

namespace {

/** Returns the windows of the last N dimensions of x, as N more dimensions. Windows that extend
 *  beyond the end are filled with zeros. */
template <int N> Tensor windows_of(const Tensor& x, const PoolAttrs& attrs, const Shape& pooled) {
  std::vector<std::int64_t> padding;
  const auto place = [](int d) { return static_cast<std::size_t>(3 - N + d); };
  bool pads = false;
  for (int d = N - 1; d >= 0; --d) {
    const std::int64_t needed =
        (pooled[pooled.rank() - N + d] - 1) * attrs.stride[place(d)] + attrs.kernel[place(d)];
    padding.insert(padding.end(), {0, std::max<std::int64_t>(0, needed - x.size(d - N))});
    pads |= padding.back() > 0;
  }
  Tensor windows = pads ? pad(x, padding) : x;
  for (int d = 0; d < N; ++d)
    windows = windows.unfold(x.dim() - N + d, attrs.kernel[place(d)], attrs.stride[place(d)]);
  return windows;
}

Tensor norm_of_last(const Tensor& x, double p, int count) {
  const std::uint32_t dims = ((1u << count) - 1) << (x.dim() - count);
  return apply_with<VectorNorm>({.p = p, .dims = dims}, x);
}

}  // namespace

template <int N> std::vector<Tensor> LpPool<N>::composite(Inputs in, const Attrs& attrs) {
  require_one_floating_dtype(traits.name, in);
  if (!(attrs.p > 0))
    fail<ValueError>(traits.name,
                     {.what = "p is out of range", .got = str(attrs.p), .expected = "more than 0"});
  const Shape pooled = AvgPool<N>::infer(in, attrs.windows).items[0].shape;
  const Tensor x = wide(in[0]);
  if (checked_numel(pooled, traits.name.data()) == 0)
    return {apply_with<AvgPool<N>>(attrs.windows, x).to(in[0].dtype())};
  Tensor norms = norm_of_last(windows_of<N>(x, attrs.windows, pooled), attrs.p, N);
  if (attrs.windows.ceil_mode) {  // windows that extend beyond the end count their mean there
    Shape space;
    for (int d = 0; d < N; ++d) space.push_back(x.size(d - N));
    Shape places;
    for (int d = 0; d < N; ++d) places.push_back(pooled[pooled.rank() - N + d]);
    const Tensor inside = ones(space, {.dtype = x.dtype(), .device = x.device()});
    const Tensor counts = norm_of_last(windows_of<N>(inside, attrs.windows, places), 1, N);
    const PoolSizes& k = attrs.windows.kernel;
    const auto all = static_cast<double>(k[0] * k[1] * k[2]);
    norms = norms * pow(all / counts, 1 / attrs.p);
  }
  return {norms.to(in[0].dtype())};
}

template <int N> std::vector<Tensor> MaxUnpool<N>::composite(Inputs in, const Attrs& attrs) {
  const Tensor &x = in[0], &positions = in[1];
  require_index_dtype(traits.name, positions);
  const int lead = x.dim() - N;
  if ((lead != 1 && lead != 2) || !(positions.shape() == x.shape()))
    fail<ShapeError>(traits.name,
                     {.what = "values and positions do not fit each other",
                      .got = str(in),
                      .expected = str("equal shapes of ", N + 1, " or ", N + 2, " dimensions")});
  std::int64_t planes = 1, room = 1;
  Shape shape;
  for (int d = 0; d < lead; ++d) {
    shape.push_back(x.shape()[d]);
    planes *= x.shape()[d];
  }
  for (int d = 0; d < N; ++d) {
    shape.push_back(attrs.sizes[static_cast<std::size_t>(3 - N + d)]);
    room = checked_product({room, shape.back()}, traits.name);
  }
  const std::int64_t values = planes == 0 ? 0 : x.numel() / planes;
  const Tensor whole = zeros({planes, room}, {.dtype = x.dtype(), .device = x.device()});
  return {scatter(whole, 1, positions.reshape({planes, values}), x.reshape({planes, values}))
              .view(shape)};
}

#define MZ_UNPOOL(N)                                                                  \
  template std::vector<Tensor> LpPool<N>::composite(Inputs, const LpPool<N>::Attrs&); \
  template std::vector<Tensor> MaxUnpool<N>::composite(Inputs, const MaxUnpool<N>::Attrs&);
MZ_UNPOOL(1)
MZ_UNPOOL(2)
MZ_UNPOOL(3)
#undef MZ_UNPOOL

std::span<OpInfo* const> unpool_ops() { return infos_of(UnpoolOps{}); }

}  // namespace mezzo::op

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
