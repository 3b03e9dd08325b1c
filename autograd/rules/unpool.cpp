// The composites of lp_pool and max_unpool.
#include "../../tensor/ops/unpool.h"

#include <algorithm>
#include <vector>

#include "../../tensor/core/checked_size.h"
#include "../../tensor/core/dispatch.h"
#include "../../tensor/core/registry.h"
#include "../../tensor/ops/gather.h"
#include "../../tensor/ops/require.h"
#include "../../tensor/ops/statistics.h"
#include "../../tensor/text/text.h"
#include "../ops/create.h"
#include "../ops/gather.h"
#include "../ops/operators.h"
#include "../ops/pad.h"
#include "wide.h"

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
