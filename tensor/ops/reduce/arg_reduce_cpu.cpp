// Kernels of the reductions that return indices.
#include "arg_reduce.h"

#include "../../cpu/fold_reduction.h"
#include "../../cpu/order.h"

namespace mezzo {

namespace {

using namespace cpu_kernels;

/** The best value so far and its index. */
template <class C, class Better> struct Extreme {
  struct Found {
    C value;
    std::int64_t index;
  };
  using Value = C;
  using State = Found;
  Better better;

  Found identity() const { return {C(0), 0}; }  // unused: empty reductions are rejected

  Found row(const C* x, std::int64_t n, std::int64_t first) const {
    // Find the value in lanes first, then its index.
    const auto best_of = [this](C a, C b) { return better(b, a) ? b : a; };
    const C best = fold_row(x, n, x[0], best_of, best_of);
    std::int64_t i = 0;
    while (best == best ? x[i] != best : x[i] == x[i]) ++i;
    return {x[i], first + i};
  }

  void columns(const C* x, std::int64_t rows, std::int64_t stride, std::int64_t width,
               std::int64_t first, Found* out) const {
    C best[kMaxColumns];
    std::int64_t index[kMaxColumns];
    std::copy(x, x + width, best);
    std::fill(index, index + width, first);
    for (std::int64_t r = 1; r < rows; ++r) {
      const C* line = x + r * stride;
      for (std::int64_t j = 0; j < width; ++j) {
        const bool found = better(line[j], best[j]);
        best[j] = found ? line[j] : best[j];
        index[j] = found ? first + r : index[j];
      }
    }
    for (std::int64_t j = 0; j < width; ++j) out[j] = {best[j], index[j]};
  }

  Found combine(Found a, Found b) const { return better(b.value, a.value) ? b : a; }
};

/** Computes the indices of the extremes, and their values if `values` is defined. */
template <class Better>
void find_extremes(const Tensor& x, const Tensor& values, const Tensor& indices,
                   const op::ArgReduceAttrs& attrs) {
  const std::uint32_t dims = attrs.all ? (1u << x.dim()) - 1 : 1u << attrs.dim;
  std::int64_t* places = indices.data<std::int64_t>();
  visit_compute(x.dtype(), [&]<class C>(std::type_identity<C>) {
    using E = Extreme<C, Better>;
    const auto emit = [&](std::int64_t at, const typename E::Found* found, std::int64_t n) {
      for (std::int64_t i = 0; i < n; ++i) places[at + i] = found[i].index;
      if (!values.defined()) return;
      C buffer[kMaxEmitted];
      for (std::int64_t i = 0; i < n; ++i) buffer[i] = found[i].value;
      const auto item = static_cast<std::int64_t>(item_size(values.dtype()));
      convert(dtype_of<C>(), buffer, values.dtype(),
              static_cast<char*>(values.raw_data()) + at * item, n);
    };
    reduce_tensor(x, dims, E{}, emit, 0.3);
  });
}

}  // namespace

namespace op {

void Argmax::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  find_extremes<Above>(in[0], {}, out[0], attrs);
}

void Argmin::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  find_extremes<Below>(in[0], {}, out[0], attrs);
}

void Max::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  find_extremes<Above>(in[0], out[0], out[1], attrs);
}

void Min::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  find_extremes<Below>(in[0], out[0], out[1], attrs);
}

}  // namespace op

}  // namespace mezzo
