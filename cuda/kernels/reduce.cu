// The CUDA kernels of the reductions with one number per result.
#include "reduce.h"

#include "../../tensor/cpu/order.h"
#include "../../tensor/ops/statistics.h"
#include "../attach.h"
#include "row.h"

namespace mezzo::gpu {

namespace {

using namespace cpu_kernels;

/** A fold by a binary function with the neutral element `start`. The result is divided by
 *  `divisor`, for means. */
template <class C, class Combine> struct Fold {
  using Value = C;
  using State = C;
  C start, divisor;
  Array out;

  __device__ State identity() const { return start; }
  __device__ State add(State a, C x, std::int64_t) const { return Combine{}(a, x); }
  __device__ State combine(State a, State b) const { return Combine{}(a, b); }
  __device__ void finish(std::int64_t at, State s) const {
    out.store<C>(at, divisor == C(1) ? s : static_cast<C>(s / divisor));
  }
};

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

template <class C, class Combine>
void fold(const Tensor& x, const Tensor& y, std::uint32_t dims, C start, C divisor = C(1)) {
  reduce(x, dims, Fold<C, Combine>{start, divisor, Array(y)});
}

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

void prod(Inputs in, Outputs out, const op::ReduceAttrs& attrs) {
  visit_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) {
    fold<C, Times>(in[0], out[0], attrs.dims, C(1));
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
  attach<op::Prod, prod>();
  attach<op::Sum, sum>();
}

}  // namespace mezzo::gpu
