// The CUDA kernel of logcumsumexp.
#include "../../../tensor/ops/reduce/logcumsumexp.h"

#include "../../../tensor/cpu/log_sum.h"
#include "../../attach.h"
#include "../line_scan.h"

namespace mezzo::gpu {

namespace {

using cpu_kernels::LogSum;

/** Combines every element with all before it. */
template <class C> struct RunningLogSum {
  using State = LogSum<C>;
  Array x, y;

  __device__ State identity() const { return State::none(); }
  __device__ State load(std::int64_t place, std::int64_t, std::int64_t) const {
    return State::of(x.load<C>(place));
  }
  __device__ State combine(State a, State b) const { return State::combined(a, b); }
  __device__ void store(std::int64_t place, std::int64_t, std::int64_t, State, State upto) const {
    y.store<C>(place, upto.value());
  }
};

void logcumsumexp(Inputs in, Outputs out, const op::Logcumsumexp::Attrs& attrs) {
  const Tensor x = row_major(in[0]);
  visit_floating_compute(out[0].dtype(), [&]<class C>(std::type_identity<C>) {
    with_row_major(out[0], [&](const Tensor& y) {
      scan(lines_along(x.shape(), attrs.dim), attrs.reversed, RunningLogSum<C>{Array(x), Array(y)},
           x.device());
    });
  });
}

}  // namespace

void attach_logcumsumexp() { attach<op::Logcumsumexp, logcumsumexp>(); }

}  // namespace mezzo::gpu
