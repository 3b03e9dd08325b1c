// Kernels of variance and log-sum-exp.
#include "statistics.h"

#include <atomic>
#include <cmath>
#include <vector>

#include "../../cpu/fold_reduction.h"
#include "../../cpu/line_scales.h"
#include "../../cpu/log_sum.h"
#include "../../cpu/moments.h"
#include "../../cpu/order.h"
#include "../../math/math.h"
#include "../../math/safe_sum.h"
#include "../norm/softmax_line_cpu.h"

namespace mezzo {

namespace {

using namespace cpu_kernels;

/** A reduction of log-sums (see reduce_driver.h). */
template <class C> struct LogSumReduction {
  using Value = C;
  using State = LogSum<C>;

  State identity() const { return State::none(); }

  State row(const C* x, std::int64_t n, std::int64_t) const {
    State state{line_max(x, n), C(0)};
    // The shift of an infinite maximum is 0, so the exponents are not bounded by 0.
    if (std::isinf(state.max))
      for (std::int64_t i = 0; i < n; ++i) state.sum += math::exp(x[i]);
    else
      state.sum = line_exp_sum(x, state.max, n);
    return state;
  }

  void columns(const C* x, std::int64_t rows, std::int64_t stride, std::int64_t width, std::int64_t,
               State* out) const {
    alignas(64) C max[kMaxColumns], lanes[kMaxColumns], sums[kMaxColumns];
    const auto greater = [](C a, C b, std::int64_t) { return kGreater(a, b); };
    fold_columns(x, rows, stride, width, lowest<C>(), greater, kGreater, max);
    for (std::int64_t j = 0; j < width; ++j) sums[j] = State{max[j], 0}.shift();
    repeat_lanes(sums, width, stride, lanes);
    const auto add = [&lanes](C a, C b, std::int64_t j) { return a + math::exp(b - lanes[j]); };
    fold_columns(x, rows, stride, width, C(0), add, kPlus, sums);
    for (std::int64_t j = 0; j < width; ++j) out[j] = {max[j], sums[j]};
  }

  State combine(State a, State b) const { return State::combined(a, b); }
};

/** Computes y = finish(state) over the dims, rounded once. */
template <class C, class R, class Finish>
void reduce_and_finish(const Tensor& x, Tensor& y, std::uint32_t dims, const R& r, Finish finish,
                       double element_ns) {
  const BlockWriter<C> writer(y);
  const auto emit = [&](std::int64_t at, const typename R::State* states, std::int64_t n) {
    C buffer[kMaxEmitted];
    C* results = writer.target(at, buffer);
    for (std::int64_t i = 0; i < n; ++i) results[i] = finish(states[i]);
    writer.write(at, n, results);
  };
  reduce_tensor(x, dims, r, emit, element_ns);
}

/** Computes the variances of the lines of x, or with `root` their standard deviations, divided by
 *  the power of `scale`, if given. Returns whether the moments of all lines are safe; writes for
 *  each line to `unsafe`, if given, whether they are not. */
template <class C>
bool put_variances(const Tensor& x, Tensor& y, const op::VarianceAttrs& attrs, bool root,
                   const C* scale, char* unsafe) {
  using State = typename Moments<C>::State;
  std::atomic<bool> all_safe = true;
  const auto count = static_cast<double>(op::reduced_count(x.shape(), attrs.reduce()));
  const C divisor = static_cast<C>(std::max(0.0, count - attrs.correction));
  const BlockWriter<C> writer(y);
  const auto emit = [&](std::int64_t at, const State* states, std::int64_t n) {
    C buffer[kMaxEmitted];
    C* results = writer.target(at, buffer);
    bool safe = true;
    for (std::int64_t i = 0; i < n; ++i) {
      safe &= math::are_safe_moments(states[i].mean, states[i].squares);
      results[i] = states[i].squares / divisor;
    }
    if (!safe) all_safe.store(false, std::memory_order_relaxed);
    if (unsafe)
      for (std::int64_t i = 0; i < n; ++i)
        unsafe[at + i] = math::are_safe_moments(states[i].mean, states[i].squares) ? 0 : 1;
    if (root)
      for (std::int64_t i = 0; i < n; ++i) results[i] = std::sqrt(results[i]);
    for (int power = root ? 1 : 2; scale && power > 0; --power)
      for (std::int64_t i = 0; i < n; ++i) results[i] /= scale[at + i];
    writer.write(at, n, results);
  };
  reduce_tensor(x, attrs.dims, Moments<C>{}, emit, 0.3);
  return all_safe;
}

void variance(const Tensor& x, Tensor& y, const op::VarianceAttrs& attrs, bool root) {
  visit_floating_compute(x.dtype(), [&]<class C>(std::type_identity<C>) {
    if (put_variances<C>(x, y, attrs, root, nullptr, nullptr) || x.numel() == 0) return;
    // The slow way: lines whose moments left the range of C are scaled and computed again.
    std::vector<char> unsafe(static_cast<std::size_t>(y.numel()));
    put_variances<C>(x, y, attrs, root, nullptr, unsafe.data());
    if (const auto scaled = scaled_lines(x, attrs.dims, unsafe))
      put_variances<C>(scaled->x, y, attrs, root, scaled->scale.template data<C>(), nullptr);
  });
}

}  // namespace

namespace op {

void LogSumExp::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  visit_floating_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) {
    const auto finish = [](const LogSum<C>& s) { return s.value(); };
    reduce_and_finish<C>(in[0], out[0], attrs.dims, LogSumReduction<C>{}, finish, 1);
  });
}

void Std::cpu(Inputs in, Outputs out, const Attrs& attrs) { variance(in[0], out[0], attrs, true); }

void Var::cpu(Inputs in, Outputs out, const Attrs& attrs) { variance(in[0], out[0], attrs, false); }

}  // namespace op

}  // namespace mezzo
