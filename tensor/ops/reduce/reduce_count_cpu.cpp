// Kernels of the reductions that count nonzero elements.
#include "reduce.h"

#include <algorithm>

#include "../../core/dispatch.h"
#include "../../cpu/reduce_driver.h"

namespace mezzo {

namespace {

using namespace cpu_kernels;

/** Counts the nonzero elements; exact, because it counts in integers for every dtype. */
template <class C> struct Nonzeros {
  using Value = C;
  using State = std::int64_t;
  State identity() const { return 0; }
  State row(const C* x, std::int64_t n, std::int64_t) const {
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < n; ++i) count += x[i] != C(0);
    return count;
  }
  void columns(const C* x, std::int64_t rows, std::int64_t stride, std::int64_t width, std::int64_t,
               State* out) const {
    std::fill(out, out + width, 0);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t j = 0; j < width; ++j) out[j] += x[r * stride + j] != C(0);
  }
  State combine(State a, State b) const { return a + b; }
};

/** Computes y = finish(number of nonzeros), where y is bool or i64. */
template <class Y, class Finish>
void count_nonzeros(const Tensor& x, Tensor& y, std::uint32_t dims, Finish finish) {
  Y* results = y.data<Y>();
  const auto emit = [&](std::int64_t at, const std::int64_t* counts, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) results[at + i] = static_cast<Y>(finish(counts[i]));
  };
  visit_compute(x.dtype(), [&]<class C>(std::type_identity<C>) {
    reduce_tensor(x, dims, Nonzeros<C>{}, emit);
  });
}

}  // namespace

namespace op {

void All::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  const std::int64_t count = reduced_count(in[0].shape(), attrs);
  count_nonzeros<bool>(in[0], out[0], attrs.dims,
                       [count](std::int64_t nonzeros) { return nonzeros == count; });
}

void Any::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  count_nonzeros<bool>(in[0], out[0], attrs.dims,
                       [](std::int64_t nonzeros) { return nonzeros > 0; });
}

void CountNonzero::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  count_nonzeros<std::int64_t>(in[0], out[0], attrs.dims,
                               [](std::int64_t nonzeros) { return nonzeros; });
}

}  // namespace op

}  // namespace mezzo
