// The composites of lp_pool and max_unpool.
#include "../../tensor/ops/unpool.h"

#include "../../tensor/core/checked_size.h"
#include "../../tensor/core/dispatch.h"
#include "../../tensor/core/registry.h"
#include "../../tensor/ops/gather.h"
#include "../../tensor/ops/require.h"
#include "../../tensor/text/text.h"
#include "../ops/create.h"
#include "../ops/gather.h"
#include "../ops/operators.h"
#include "wide.h"

namespace mezzo::op {

template <int N> std::vector<Tensor> LpPool<N>::composite(Inputs in, const Attrs& attrs) {
  require_one_floating_dtype(traits.name, in);
  if (!(attrs.p > 0))
    fail<ValueError>(traits.name,
                     {.what = "p is out of range", .got = str(attrs.p), .expected = "more than 0"});
  const PoolSizes& k = attrs.windows.kernel;
  const Tensor means = apply_with<AvgPool<N>>(attrs.windows, pow(wide(in[0]), attrs.p));
  const double places =
      static_cast<double>(k[0]) * static_cast<double>(k[1]) * static_cast<double>(k[2]);
  const Tensor sums = means * places;
  // The root has no derivative at 0; a window of zeros gets gradient 0.
  const Tensor nothing = sums == 0;
  const Tensor roots = pow(where(nothing, 1.0, sums), 1 / attrs.p);
  return {where(nothing, 0.0, roots).to(in[0].dtype())};
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
