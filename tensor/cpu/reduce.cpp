// Kernels of sums and extremes.
#include "../ops/reduce.h"

#include "fold_reduction.h"
#include "order.h"

namespace mezzo {

namespace {

using namespace cpu_kernels;

constexpr auto kSame = []<class C>(C a) { return a; };

}  // namespace

namespace op {

void Amax::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  visit_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) {
    fold_tensor(in[0], out[0], attrs.dims, lowest<C>(), kGreater, kGreater, kSame);
  });
}

void Amin::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  visit_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) {
    fold_tensor(in[0], out[0], attrs.dims, highest<C>(), kLess, kLess, kSame);
  });
}

void Mean::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  visit_floating_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) {
    const C count = static_cast<C>(reduced_count(in[0].shape(), attrs));
    fold_tensor(in[0], out[0], attrs.dims, C(0), kPlus, kPlus,
                [count](C total) { return total / count; });
  });
}

void Sum::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  visit_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) {
    fold_tensor(in[0], out[0], attrs.dims, C(0), kPlus, kPlus, kSame);
  });
}

}  // namespace op

}  // namespace mezzo
