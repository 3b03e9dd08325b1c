// Kernel of the p-norm.
#include <cmath>

#include "../math.h"
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
  } else if (p == 0) {
    fold(
        C(0), [](C a, C v) { return v != C(0) ? a + C(1) : a; }, kPlus, kSame);
  } else if (std::isinf(p) && p > 0) {
    fold(
        C(0), [=](C a, C v) { return kGreater(a, absolute(v)); }, kGreater, kSame);
  } else if (std::isinf(p)) {
    fold(
        highest<C>(), [=](C a, C v) { return kLess(a, absolute(v)); }, kLess, kSame);
  } else {
    const C power = static_cast<C>(p), root = static_cast<C>(1 / p);
    fold(
        C(0), [=](C a, C v) { return a + math::pow(absolute(v), power); }, kPlus,
        [=](C s) { return math::pow(s, root); });
  }
}

}  // namespace

namespace op {

void VectorNorm::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  visit_floating_compute(
      in[0].dtype(), [&]<class C>(std::type_identity<C>) { norm<C>(in[0], out[0], attrs.dims, attrs.p); });
}

}  // namespace op

}  // namespace mezzo
