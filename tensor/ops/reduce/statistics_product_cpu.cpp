// Kernels of products of elements.
#include "statistics.h"

#include "../../cpu/fold_reduction.h"
#include "../../cpu/line_map.h"
#include "../../cpu/order.h"

namespace mezzo {

namespace {

using namespace cpu_kernels;

/** Computes the product of all elements before times the product of all elements after. */
template <class C> void others_line(const C* const* in, C* y, std::int64_t n) {
  const C* x = in[0];
  C product = 1;
  for (std::int64_t i = 0; i < n; ++i) {
    y[i] = product;
    product *= x[i];
  }
  product = 1;
  for (std::int64_t i = n - 1; i >= 0; --i) {
    y[i] *= product;
    product *= x[i];
  }
}

}  // namespace

namespace op {

void Prod::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  visit_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) {
    fold_tensor(in[0], out[0], attrs.dims, C(1), kTimes, kTimes, [](C product) { return product; });
  });
}

void ProdOfOthers::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  visit_floating_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) {
    map_lines<C, 1>({row_major(in[0])}, out[0], attrs.dim, others_line<C>, 2);
  });
}

}  // namespace op

}  // namespace mezzo
