// Kernel of the p-norm.
#include <atomic>
#include <cmath>
#include <vector>

#include "../../cpu/fold_reduction.h"
#include "../../cpu/line_scales.h"
#include "../../cpu/order.h"
#include "../../math/math.h"
#include "../../math/safe_sum.h"
#include "statistics.h"

namespace mezzo {

namespace {

using namespace cpu_kernels;

constexpr auto kSame = []<class C>(C a) { return a; };

/** A p-norm: a fold of the elements and the function of its result. */
template <class C, class F> void visit_norm(double p, F&& f) {
  const auto absolute = [](C v) { return v < C(0) ? -v : v; };
  if (p == 2) {
    f(C(0), [](C a, C v) { return a + v * v; }, kPlus, [](C s) { return std::sqrt(s); });
  } else if (p == 1) {
    f(C(0), [=](C a, C v) { return a + absolute(v); }, kPlus, kSame);
  } else if (std::isinf(p)) {
    // The smallest absolute value is minus the largest of the negated ones.
    const C sign = p > 0 ? C(1) : C(-1);
    f(
        p > 0 ? C(0) : -highest<C>(), [=](C a, C v) { return kGreater(a, sign * absolute(v)); },
        kGreater, [=](C s) { return sign * s; });
  } else {
    // p == 0 counts the elements that are not zero.
    const bool counts = p == 0;
    const C power = static_cast<C>(p), root = counts ? C(1) : static_cast<C>(1 / p);
    f(
        C(0),
        [=](C a, C v) {
          const C term = math::pow(absolute(v), power);
          return a + (counts ? (v != C(0) ? C(1) : C(0)) : term);
        },
        kPlus, [=](C s) { return counts ? s : math::pow(s, root); });
  }
}

/** Returns whether the norm is the root of a sum of powers, which may leave the range of C. */
bool sums_powers(double p) { return p != 0 && p != 1 && !std::isinf(p); }

/** Computes the norms of the lines of x, divided by `scale` if given. Returns whether the sums of
 *  all lines are safe; writes for each line to `unsafe`, if given, whether its sum is not. */
template <class C>
bool put_norms(const Tensor& x, Tensor& y, std::uint32_t dims, double p, const C* scale,
               char* unsafe) {
  std::atomic<bool> all_safe = true;
  const bool checks = sums_powers(p);
  const BlockWriter<C> writer(y);
  visit_norm<C>(p, [&]<class Step, class Combine, class Finish>(C start, Step step, Combine combine,
                                                                Finish finish) {
    const auto emit = [&](std::int64_t at, const C* states, std::int64_t n) {
      C buffer[kMaxEmitted];
      C* results = writer.target(at, buffer);
      bool safe = true;
      if (checks)
        for (std::int64_t i = 0; i < n; ++i) safe &= math::is_safe_sum(states[i]);
      if (!safe) all_safe.store(false, std::memory_order_relaxed);
      if (unsafe)
        for (std::int64_t i = 0; i < n; ++i) unsafe[at + i] = math::is_safe_sum(states[i]) ? 0 : 1;
      for (std::int64_t i = 0; i < n; ++i) results[i] = finish(states[i]);
      if (scale)
        for (std::int64_t i = 0; i < n; ++i) results[i] /= scale[at + i];
      writer.write(at, n, results);
    };
    reduce_tensor(x, dims, Fold<C, Step, Combine>{start, step, combine}, emit);
  });
  return all_safe;
}

template <class C> void norm(const Tensor& x, Tensor& y, std::uint32_t dims, double p) {
  if (put_norms<C>(x, y, dims, p, nullptr, nullptr) || x.numel() == 0) return;
  // The slow way: lines whose sums left the range of C are scaled and computed again.
  std::vector<char> unsafe(static_cast<std::size_t>(y.numel()));
  put_norms<C>(x, y, dims, p, nullptr, unsafe.data());
  if (const auto scaled = scaled_lines(x, dims, unsafe, p < 0))
    put_norms<C>(scaled->x, y, dims, p, scaled->scale.template data<C>(), nullptr);
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
