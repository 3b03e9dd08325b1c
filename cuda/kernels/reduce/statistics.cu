// The CUDA kernels of variance, norms, products and log-sum-exp.
#include "../../../tensor/ops/reduce/statistics.h"

#include "../../../tensor/cpu/log_sum.h"
#include "../../../tensor/cpu/moments.h"
#include "../../../tensor/cpu/order.h"
#include "../../../tensor/math/safe_sum.h"
#include "../../attach.h"
#include "reduce.h"

namespace mezzo::gpu {

namespace {

using namespace cpu_kernels;

template <class C> struct LogSumExp {
  using Value = C;
  using State = LogSum<C>;
  Array out;

  __device__ State identity() const { return State::none(); }
  __device__ State add(State a, C x, std::int64_t) const {
    return State::combined(a, State::of(x));
  }
  __device__ State combine(State a, State b) const { return State::combined(a, b); }
  __device__ void finish(std::int64_t at, State s) const { out.store<C>(at, s.value()); }
};

/** A power of two that brings small deviations into the range of their squares; its reciprocal
 *  serves for large ones. */
template <class C>
inline constexpr C kUpScale = static_cast<C>(std::is_same_v<C, float> ? 0x1p80 : 0x1p600);

template <class C> struct Variance {
  using Value = C;
  using State = typename Moments<C>::State;
  C divisor;
  bool root;  // compute the standard deviation
  Array out;
  C scale = C(1);

  __device__ State identity() const { return {C(0), C(0), C(0)}; }
  __device__ State add(State a, C x, std::int64_t) const {
    return combine(a, {C(1), x * scale, C(0)});
  }
  __device__ bool is_safe(State s) const { return math::are_safe_moments(s.mean, s.squares); }
  __device__ Variance rescaled(State s) const {
    Variance other = *this;
    other.scale =
        math::is_finite(s.mean) && math::is_finite(s.squares) ? kUpScale<C> : C(1) / kUpScale<C>;
    return other;
  }
  __device__ State combine(State a, State b) const { return Moments<C>{}.combine(a, b); }
  __device__ void finish(std::int64_t at, State s) const {
    const C variance = s.squares / divisor;
    out.store<C>(at, root ? std::sqrt(variance) / scale : variance / scale / scale);
  }
};

/** The terms of a p-norm. */
enum class Power : std::uint8_t { nonzeros, first, second, any, greatest, least };

constexpr Power power_of(double p) {
  if (p == 0) return Power::nonzeros;
  if (p == 1) return Power::first;
  if (p == 2) return Power::second;
  if (p > 1e308) return Power::greatest;
  return p < -1e308 ? Power::least : Power::any;
}

/** The terms of some elements. Sums of powers come with the greatest size, or the least for
 *  p < 0. */
template <class C> struct NormState {
  C sum, extreme;
};

template <class C> struct VectorNorm {
  using Value = C;
  using State = NormState<C>;
  Power power;
  C p;
  Array out;
  C scale = C(1);

  __device__ bool by_least() const {
    return power == Power::least || (power == Power::any && p < C(0));
  }
  __device__ State identity() const { return {C(0), by_least() ? highest<C>() : C(0)}; }
  __device__ State add(State a, C x, std::int64_t) const {
    const C scaled = x * scale, size = scaled < C(0) ? -scaled : scaled;
    return combine(a, {term(scaled, size), size});
  }
  __device__ C term(C x, C size) const {
    switch (power) {
      case Power::nonzeros: return x != C(0) ? C(1) : C(0);
      case Power::first: return size;
      case Power::second: return x * x;
      case Power::any: return math::pow(size, p);
      default: return C(0);
    }
  }
  __device__ State combine(State a, State b) const {
    return {a.sum + b.sum,
            by_least() ? Less{}(a.extreme, b.extreme) : Greater{}(a.extreme, b.extreme)};
  }
  __device__ bool is_safe(State s) const {
    return (power != Power::second && power != Power::any) || math::is_safe_sum(s.sum) ||
           math::scale_of(s.extreme) == C(1);
  }
  __device__ VectorNorm rescaled(State s) const {
    VectorNorm other = *this;
    other.scale = math::scale_of(s.extreme);
    return other;
  }
  __device__ void finish(std::int64_t at, State s) const {
    const C norm = power == Power::greatest || power == Power::least ? s.extreme
                   : power == Power::second                          ? std::sqrt(s.sum)
                   : power == Power::any                             ? math::pow(s.sum, C(1) / p)
                                                                     : s.sum;
    out.store<C>(at, norm / scale);
  }
};

/** Computes the product of all other elements: that of those before times that of those after. One
 *  thread per line. */
template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    others_kernel(const Lines __grid_constant__ lines, const Array x, const Array y) {
  const std::int64_t line = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (line >= lines.count) return;
  const std::int64_t base = line / lines.inner * lines.length * lines.inner + line % lines.inner;
  const auto place = [&](std::int64_t i) { return base + i * lines.inner; };
  C product = 1;
  for (std::int64_t i = 0; i < lines.length; ++i) {
    y.store<C>(place(i), product);
    product *= x.load<C>(place(i));
  }
  product = 1;
  for (std::int64_t i = lines.length - 1; i >= 0; --i) {
    y.store<C>(place(i), y.load<C>(place(i)) * product);
    product *= x.load<C>(place(i));
  }
}

void prod_of_others(Inputs in, Outputs out, const op::ProdOfOthers::Attrs& attrs) {
  if (out[0].numel() == 0) return;
  const Tensor x = row_major(in[0]);
  const Lines lines = lines_along(x.shape(), attrs.dim);
  visit_floating_compute(x.dtype(), [&]<class C>(std::type_identity<C>) {
    launch(&others_kernel<C>,
           {.blocks = blocks_for(lines.count, kSpreadThreads), .threads = kSpreadThreads},
           current_stream(x.device()), lines, Array(x), Array(out[0]));
  });
}

void prod(Inputs in, Outputs out, const op::ReduceAttrs& attrs) {
  visit_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) {
    fold<C, Times>(in[0], out[0], attrs.dims, C(1));
  });
}

void log_sum_exp(Inputs in, Outputs out, const op::ReduceAttrs& attrs) {
  visit_floating_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) {
    reduce_packed(in[0], attrs.dims, LogSumExp<C>{Array(out[0])});
  });
}

void variance(Inputs in, Outputs out, const op::VarianceAttrs& attrs, bool root) {
  const auto count = static_cast<double>(op::reduced_count(in[0].shape(), attrs.reduce()));
  const double divisor = count > attrs.correction ? count - attrs.correction : 0;
  visit_floating_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) {
    reduce_packed(in[0], attrs.dims, Variance<C>{static_cast<C>(divisor), root, Array(out[0])});
  });
}

void var(Inputs in, Outputs out, const op::VarianceAttrs& attrs) {
  variance(in, out, attrs, false);
}
void standard_deviation(Inputs in, Outputs out, const op::VarianceAttrs& attrs) {
  variance(in, out, attrs, true);
}

void vector_norm(Inputs in, Outputs out, const op::NormAttrs& attrs) {
  visit_floating_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) {
    reduce_packed(in[0], attrs.dims,
                  VectorNorm<C>{power_of(attrs.p), static_cast<C>(attrs.p), Array(out[0])});
  });
}

}  // namespace

void attach_statistics() {
  attach<op::LogSumExp, log_sum_exp>();
  attach<op::Prod, prod>();
  attach<op::ProdOfOthers, prod_of_others>();
  attach<op::Std, standard_deviation>();
  attach<op::Var, var>();
  attach<op::VectorNorm, vector_norm>();
}

}  // namespace mezzo::gpu
