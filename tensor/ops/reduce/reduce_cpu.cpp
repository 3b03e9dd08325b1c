// Kernels of sums and extremes.
#include "reduce.h"

#include <atomic>
#include <vector>

#include "../../cpu/fold_reduction.h"
#include "../../cpu/line_scales.h"
#include "../../cpu/order.h"
#include "../../math/safe_sum.h"

namespace mezzo {

namespace {

using namespace cpu_kernels;

constexpr auto kSame = []<class C>(C a) { return a; };

/** Computes the means of the lines of x, divided by `scale` if given. Returns whether no sum
 *  overflowed; writes for each line to `unsafe`, if given, whether its sum did. */
template <class C>
bool put_means(const Tensor& x, Tensor& y, const op::ReduceAttrs& attrs, const C* scale,
               char* unsafe) {
  std::atomic<bool> all_safe = true;
  const C count = static_cast<C>(op::reduced_count(x.shape(), attrs));
  const BlockWriter<C> writer(y);
  const auto emit = [&](std::int64_t at, const C* states, std::int64_t n) {
    C buffer[kMaxEmitted];
    C* results = writer.target(at, buffer);
    bool safe = true;
    for (std::int64_t i = 0; i < n; ++i) safe &= math::is_finite(states[i]);
    if (!safe) all_safe.store(false, std::memory_order_relaxed);
    if (unsafe)
      for (std::int64_t i = 0; i < n; ++i) unsafe[at + i] = math::is_finite(states[i]) ? 0 : 1;
    for (std::int64_t i = 0; i < n; ++i) results[i] = states[i] / count;
    if (scale)
      for (std::int64_t i = 0; i < n; ++i) results[i] /= scale[at + i];
    writer.write(at, n, results);
  };
  reduce_tensor(x, attrs.dims, Fold<C, Plus, Plus>{C(0), kPlus, kPlus}, emit);
  return all_safe;
}

template <class C> void mean(const Tensor& x, Tensor& y, const op::ReduceAttrs& attrs) {
  if (put_means<C>(x, y, attrs, nullptr, nullptr) || x.numel() == 0) return;
  // The slow way: lines whose sums overflowed are scaled and computed again.
  std::vector<char> unsafe(static_cast<std::size_t>(y.numel()));
  put_means<C>(x, y, attrs, nullptr, unsafe.data());
  if (const auto scaled = scaled_lines(x, attrs.dims, unsafe))
    put_means<C>(scaled->x, y, attrs, scaled->scale.template data<C>(), nullptr);
}

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
  visit_floating_compute(in[0].dtype(),
                         [&]<class C>(std::type_identity<C>) { mean<C>(in[0], out[0], attrs); });
}

void Sum::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  visit_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) {
    fold_tensor(in[0], out[0], attrs.dims, C(0), kPlus, kPlus, kSame);
  });
}

}  // namespace op

}  // namespace mezzo
