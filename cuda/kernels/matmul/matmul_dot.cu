// The CUDA kernels of the inner products: reductions whose elements are products.
#include "../../../tensor/core/dispatch.h"
#include "../../../tensor/ops/elementwise/formula.h"
#include "../../../tensor/ops/matmul/matmul.h"
#include "../../attach.h"
#include "../reduce/reduce.h"

namespace mezzo::gpu {

namespace {

template <class C> struct Total {
  using State = C;
  Array out;

  __device__ State identity() const { return C(0); }
  __device__ State combine(State a, State b) const { return op::plus(a, b); }
  __device__ void finish(std::int64_t at, State s) const { out.store<C>(at, s); }
};

/** Sums the products of two operands. Both plans have one shape, so results and elements have the
 *  same order. */
template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    dot_kernel(const ReductionPlan __grid_constant__ x, const ReductionPlan __grid_constant__ y,
               const Total<C> r, C* partial) {
  MZ_SHARED(C, sums, kSpreadThreads);
  const ReduceWalk walk(x);
  const std::int64_t at_x = walk.has_result ? place_of(x.kept, walk.result) : 0,
                     at_y = walk.has_result ? place_of(y.kept, walk.result) : 0;
  C sum = 0;
  walk.for_each([&](std::int64_t i) {
    sum = op::plus(sum, op::times(load_element<C>(x.data, x.dtype, at_x + place_of(x.reduced, i)),
                                  load_element<C>(y.data, y.dtype, at_y + place_of(y.reduced, i))));
  });
  walk.finish(r, sums, sum, partial);
}

/** Broadcasts both operands to one shape and sums over the last dimension. */
void inner_products(Inputs in, Outputs out, const NoAttrs&) {
  const CastScope no_casts(nullptr);
  Shape shape = out[0].shape();
  shape.push_back(in[0].shape().back());
  const Tensor a = in[0].detach().expand(shape), b = in[1].detach().expand(shape);
  const std::uint32_t last = 1u << (shape.rank() - 1);
  ReductionPlan x = reduction_of(a, last), y = reduction_of(b, last);
  visit_compute(out[0].dtype(), [&]<class C>(std::type_identity<C>) {
    const Total<C> r{Array(out[0])};
    reduce_by(x, r, out[0].device(), [&](const Grid& grid, C* partial) {
      launch(&dot_kernel<C>, grid, current_stream(out[0].device()), x, y, r, partial);
    });
  });
}

}  // namespace

void attach_matmul_dot() {
  attach<op::Dot, inner_products>();
  attach<op::Vecdot, inner_products>();
}

}  // namespace mezzo::gpu
