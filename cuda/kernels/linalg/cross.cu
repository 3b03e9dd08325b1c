// The CUDA kernel of cross.
#include "../../../tensor/ops/linalg/cross.h"

#include "../../../tensor/ops/elementwise/formula.h"
#include "../../attach.h"
#include "../map.h"

namespace mezzo::gpu {

namespace {

template <class C>
__global__ void __launch_bounds__(kMapThreads) cross_kernel(const Map __grid_constant__ map) {
  for_each_run(map, [&](std::int64_t at, int n) {
    C a[3][kRun], b[3][kRun], y[kRun];
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      load_run<C>(map, map.in[i], at, n, a[i]);
      load_run<C>(map, map.in[3 + i], at, n, b[i]);
    }
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      const int j = (i + 1) % 3, k = (i + 2) % 3;
#pragma unroll
      for (int e = 0; e < kRun; ++e)
        if (e < n) y[e] = op::cross_component(a[j][e], a[k][e], b[j][e], b[k][e]);
      store_run<C>(map, map.out[i], at, n, y);
    }
  });
}

template <class C> void launch_cross(const Map& map, const void*, runtime::Stream stream) {
  launch(&cross_kernel<C>, map_grid(map), stream, map);
}

void cross(Inputs in, Outputs out, const op::Cross::Attrs& attrs) {
  op::CrossComponents all = op::cross_components(in, out[0], attrs.dim);
  constexpr MapFns fns{&launch_cross<float>, &launch_cross<double>, &launch_cross<std::int64_t>};
  map_elements(fns, compute_dtype(out[0].dtype()), all.operands, all.results, nullptr);
}

}  // namespace

void attach_cross() { attach<op::Cross, cross>(); }

}  // namespace mezzo::gpu
