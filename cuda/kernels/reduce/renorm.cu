// The CUDA kernel of renorm. The norms are computed by vector_norm, the factors when they are
// applied.
#include "../../../tensor/ops/reduce/renorm.h"

#include "../../../tensor/core/dispatch.h"
#include "../../../tensor/ops/reduce/statistics.h"
#include "../../attach.h"
#include "../map.h"

namespace mezzo::gpu {

namespace {

template <class C>
__global__ void __launch_bounds__(kMapThreads)
    renorm_kernel(const Map __grid_constant__ map, const C maxnorm) {
  for_each_run(map, [&](std::int64_t at, int n) {
    C x[kRun], norm[kRun];
    load_run<C>(map, map.in[0], at, n, x);
    load_run<C>(map, map.in[1], at, n, norm);
#pragma unroll
    for (int k = 0; k < kRun; ++k)
      if (k < n) x[k] = x[k] * op::renorm_factor(norm[k], maxnorm);
    store_run<C>(map, map.out[0], at, n, x);
  });
}

template <class C> void launch_renorm(const Map& map, const void* maxnorm, runtime::Stream stream) {
  launch(&renorm_kernel<C>, map_grid(map), stream, map,
         static_cast<C>(*static_cast<const double*>(maxnorm)));
}

void renorm(Inputs in, Outputs out, const op::Renorm::Attrs& attrs) {
  const Tensor& x = in[0];
  if (x.numel() == 0) return;
  const op::SliceNorms plan = op::slice_norms(x, attrs);
  Tensor norms = empty_tensor(plan.shape, compute_dtype(x.dtype()), x.device());
  kernel_slot<op::VectorNorm>()(op_info<op::VectorNorm>, in, {&norms, 1}, &plan.attrs);
  const Tensor operands[] = {x, norms};
  constexpr MapFns fns{&launch_renorm<float>, &launch_renorm<double>};
  map_elements(fns, compute_dtype(x.dtype()), operands, out, &attrs.maxnorm);
}

}  // namespace

void attach_renorm() { attach<op::Renorm, renorm>(); }

}  // namespace mezzo::gpu
