// The CUDA kernels of the reductions with one number per result.
#include "../../tensor/ops/reduce.h"

#include "../../tensor/cpu/order.h"
#include "../attach.h"
#include "reduce.h"

namespace mezzo::gpu {

namespace {

using namespace cpu_kernels;

/** The result of a count of nonzero elements. */
enum class Count { all, any, number };

/** Counts nonzero elements, in integers for any dtype. */
template <class C> struct Nonzeros {
  using Value = C;
  using State = std::int64_t;
  Count count;
  std::int64_t length;
  Array out;

  __device__ State identity() const { return 0; }
  __device__ State add(State n, C x, std::int64_t) const { return n + (x != C(0) ? 1 : 0); }
  __device__ State combine(State a, State b) const { return a + b; }
  __device__ void finish(std::int64_t at, State n) const {
    out.store<std::int64_t>(at, count == Count::number ? n
                                : count == Count::any  ? n > 0
                                                       : n == length);
  }
};

void count_nonzeros(Inputs in, Outputs out, const op::ReduceAttrs& attrs, Count count) {
  const std::int64_t length = op::reduced_count(in[0].shape(), attrs);
  visit_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) {
    reduce(in[0], attrs.dims, Nonzeros<C>{count, length, Array(out[0])});
  });
}

void all(Inputs in, Outputs out, const op::ReduceAttrs& attrs) {
  count_nonzeros(in, out, attrs, Count::all);
}
void any(Inputs in, Outputs out, const op::ReduceAttrs& attrs) {
  count_nonzeros(in, out, attrs, Count::any);
}
void count_nonzero(Inputs in, Outputs out, const op::ReduceAttrs& attrs) {
  count_nonzeros(in, out, attrs, Count::number);
}

void amax(Inputs in, Outputs out, const op::ReduceAttrs& attrs) {
  visit_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) {
    fold<C, Greater>(in[0], out[0], attrs.dims, lowest<C>());
  });
}

void amin(Inputs in, Outputs out, const op::ReduceAttrs& attrs) {
  visit_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) {
    fold<C, Less>(in[0], out[0], attrs.dims, highest<C>());
  });
}

void mean(Inputs in, Outputs out, const op::ReduceAttrs& attrs) {
  visit_floating_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) {
    fold<C, Plus>(in[0], out[0], attrs.dims, C(0),
                  static_cast<C>(op::reduced_count(in[0].shape(), attrs)));
  });
}

void sum(Inputs in, Outputs out, const op::ReduceAttrs& attrs) {
  visit_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) {
    fold<C, Plus>(in[0], out[0], attrs.dims, C(0));
  });
}

}  // namespace

void attach_reduce() {
  attach<op::All, all>();
  attach<op::Amax, amax>();
  attach<op::Amin, amin>();
  attach<op::Any, any>();
  attach<op::CountNonzero, count_nonzero>();
  attach<op::Mean, mean>();
  attach<op::Sum, sum>();
}

}  // namespace mezzo::gpu
