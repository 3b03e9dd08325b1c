// The CUDA kernels of the reductions that return indices.
#include "../../../tensor/ops/reduce/arg_reduce.h"

#include "../../../tensor/cpu/order.h"
#include "../../attach.h"
#include "reduce.h"

namespace mezzo::gpu {

namespace {

/** Finds the first of the best elements. */
template <class C, class Better> struct Extreme {
  using Value = C;
  using State = Found<C>;
  Array values;  // absent if only the indices are requested
  Array indices;

  __device__ State identity() const { return {C(0), -1}; }
  __device__ State add(State a, C x, std::int64_t i) const {
    return a.index < 0 || Better{}(x, a.value) ? State{x, i} : a;
  }
  __device__ State combine(State a, State b) const { return first_best<Better>(a, b); }
  __device__ void finish(std::int64_t at, State s) const {
    indices.store<std::int64_t>(at, s.index);
    if (values.data) values.store<C>(at, s.value);
  }
};

template <class Better>
void find_extremes(const Tensor& x, const Array& values, const Tensor& indices,
                   const op::ArgReduceAttrs& attrs) {
  const std::uint32_t dims = attrs.all ? (1u << x.dim()) - 1 : 1u << attrs.dim;
  visit_compute(x.dtype(), [&]<class C>(std::type_identity<C>) {
    reduce_packed(x, dims, Extreme<C, Better>{values, Array(indices)});
  });
}

using ArgAttrs = op::ArgReduceAttrs;
using cpu_kernels::Above;
using cpu_kernels::Below;

void argmax(Inputs in, Outputs out, const ArgAttrs& attrs) {
  find_extremes<Above>(in[0], {}, out[0], attrs);
}
void argmin(Inputs in, Outputs out, const ArgAttrs& attrs) {
  find_extremes<Below>(in[0], {}, out[0], attrs);
}
void max(Inputs in, Outputs out, const ArgAttrs& attrs) {
  find_extremes<Above>(in[0], Array(out[0]), out[1], attrs);
}
void min(Inputs in, Outputs out, const ArgAttrs& attrs) {
  find_extremes<Below>(in[0], Array(out[0]), out[1], attrs);
}

}  // namespace

void attach_arg_reduce() {
  attach<op::Argmax, argmax>();
  attach<op::Argmin, argmin>();
  attach<op::Max, max>();
  attach<op::Min, min>();
}

}  // namespace mezzo::gpu
