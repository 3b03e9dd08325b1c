// The CUDA kernels of variance, norms, products and log-sum-exp.
#include "../../tensor/ops/statistics.h"

#include "../../tensor/cpu/log_sum.h"
#include "../../tensor/cpu/moments.h"
#include "../../tensor/cpu/order.h"
#include "../attach.h"
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

template <class C> struct Variance {
  using Value = C;
  using State = typename Moments<C>::State;
  C divisor;
  bool root;  // compute the standard deviation
  Array out;

  __device__ State identity() const { return {C(0), C(0), C(0)}; }
  __device__ State add(State a, C x, std::int64_t) const { return combine(a, {C(1), x, C(0)}); }
  __device__ State combine(State a, State b) const { return Moments<C>{}.combine(a, b); }
  __device__ void finish(std::int64_t at, State s) const {
    const C variance = s.squares / divisor;
    out.store<C>(at, root ? std::sqrt(variance) : variance);
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

template <class C> struct VectorNorm {
  using Value = C;
  using State = C;
  Power power;
  C p;
  Array out;

  __device__ State identity() const { return power == Power::least ? highest<C>() : C(0); }
  __device__ State add(State a, C x, std::int64_t) const {
    const C size = x < C(0) ? -x : x;
    switch (power) {
      case Power::nonzeros: return x != C(0) ? a + C(1) : a;
      case Power::first: return a + size;
      case Power::second: return a + x * x;
      case Power::any: return a + math::pow(size, p);
      default: return combine(a, size);
    }
  }
  __device__ State combine(State a, State b) const {
    if (power == Power::greatest) return Greater{}(a, b);
    return power == Power::least ? Less{}(a, b) : a + b;
  }
  __device__ void finish(std::int64_t at, State s) const {
    const C root = power == Power::second ? std::sqrt(s)
                   : power == Power::any  ? math::pow(s, C(1) / p)
                                          : s;
    out.store<C>(at, root);
  }
};

/** Computes the product of all other elements: that of those before times that of those after. One
 *  thread per line. */
template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    others_kernel(const __grid_constant__ Lines lines, const Array x, const Array y) {
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
    reduce(in[0], attrs.dims, LogSumExp<C>{Array(out[0])});
  });
}

void variance(Inputs in, Outputs out, const op::VarianceAttrs& attrs, bool root) {
  const auto count = static_cast<double>(op::reduced_count(in[0].shape(), attrs.reduce()));
  const double divisor = count > attrs.correction ? count - attrs.correction : 0;
  visit_floating_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) {
    reduce(in[0], attrs.dims, Variance<C>{static_cast<C>(divisor), root, Array(out[0])});
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
    reduce(in[0], attrs.dims,
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
