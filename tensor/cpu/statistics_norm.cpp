// Kernel of the p-norm.
#include <cmath>

#include "../math/math.h"
#include "../ops/statistics.h"
#include "fold_reduction.h"
#include "order.h"

namespace mezzo {

namespace {

using namespace cpu_kernels;

constexpr auto kSame = []<class C>(C a) { return a; };

template <class C> void norm(const Tensor& x, Tensor& y, std::uint32_t dims, double p) {
  const auto absolute = [](C v) { return v < C(0) ? -v : v; };
  const auto fold = [&](C start, auto step, auto combine, auto finish) {
    fold_tensor(x, y, dims, start, step, combine, finish);
  };
  if (p == 2) {
    fold(
        C(0), [](C a, C v) { return a + v * v; }, kPlus, [](C s) { return std::sqrt(s); });
  } else if (p == 1) {
    fold(
        C(0), [=](C a, C v) { return a + absolute(v); }, kPlus, kSame);
  } else if (std::isinf(p)) {
    // The smallest absolute value is minus the largest of the negated ones.
    const C sign = p > 0 ? C(1) : C(-1);
    fold(
        p > 0 ? C(0) : -highest<C>(), [=](C a, C v) { return kGreater(a, sign * absolute(v)); },
        kGreater, [=](C s) { return sign * s; });
  } else {
    // p == 0 counts the elements that are not zero.
    const bool counts = p == 0;
    const C power = static_cast<C>(p), root = counts ? C(1) : static_cast<C>(1 / p);
    fold(
        C(0),
        [=](C a, C v) {
          const C term = math::pow(absolute(v), power);
          return a + (counts ? (v != C(0) ? C(1) : C(0)) : term);
        },
        kPlus, [=](C s) { return counts ? s : math::pow(s, root); });
  }
}

}  // namespace

namespace op {

void VectorNorm::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  visit_floating_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) {
    norm<C>(in[0], out[0], attrs.dims, attrs.p);
  });
}

}  // namespace op

}  // namespace mezzo
