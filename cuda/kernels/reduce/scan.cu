// The CUDA kernels of cumsum, cumprod and the gradient of cumprod.
#include "../../../tensor/ops/reduce/scan.h"

#include "../../../tensor/cpu/order.h"
#include "../../attach.h"
#include "../line_scan.h"

namespace mezzo::gpu {

namespace {

using namespace cpu_kernels;

/** Combines every element with all before it. */
template <class C, class Combine> struct Running {
  using State = C;
  C start;
  Array x, y;

  __device__ State identity() const { return start; }
  __device__ State load(std::int64_t place, std::int64_t, std::int64_t) const {
    return x.load<C>(place);
  }
  __device__ State combine(State a, State b) const { return Combine{}(a, b); }
  __device__ void store(std::int64_t place, std::int64_t, std::int64_t, State, State upto) const {
    y.store<C>(place, upto);
  }
  bool aligned() const { return has_aligned_items(x) && has_aligned_items(y); }
  __device__ void load_items(std::int64_t place, std::int64_t, State* items) const {
    load_adjacent(x, place, items);
  }
  __device__ void store_items(std::int64_t place, const State* upto) const {
    store_adjacent(y, place, upto);
  }
};

/** From the end of a line: tail[k] = g[k] + x[k+1] tail[k+1]. A state is the function value +
 *  factor * t of the tail t that follows it. */
template <class C> struct Tails {
  struct State {
    C value, factor;
  };
  Array g, x;
  C* tails;
  std::int64_t length, inner;

  __device__ State identity() const { return {C(0), C(1)}; }
  __device__ State load(std::int64_t place, std::int64_t, std::int64_t i) const {
    return {g.load<C>(place), i + 1 < length ? x.load<C>(place + inner) : C(0)};
  }
  __device__ State combine(State a, State b) const {
    return {b.value + b.factor * a.value, b.factor * a.factor};
  }
  __device__ void store(std::int64_t place, std::int64_t, std::int64_t, State, State upto) const {
    tails[place] = upto.value;
  }
};

/** Computes gx[k] = product of x before k, times tail[k]. */
template <class C> struct TimesBefore {
  using State = C;
  Array x, gx;
  const C* tails;

  __device__ State identity() const { return C(1); }
  __device__ State load(std::int64_t place, std::int64_t, std::int64_t) const {
    return x.load<C>(place);
  }
  __device__ State combine(State a, State b) const { return a * b; }
  __device__ void store(std::int64_t place, std::int64_t, std::int64_t, State before, State) const {
    gx.store<C>(place, before * tails[place]);
  }
};

template <class Combine>
void run_along(const Tensor& operand, Tensor& out, int dim, bool reversed, int start) {
  const Tensor x = row_major(operand);
  visit_compute(x.dtype(), [&]<class C>(std::type_identity<C>) {
    with_row_major(out, [&](const Tensor& y) {
      const Lines lines = lines_along(x.shape(), dim);
      const Running<C, Combine> running{static_cast<C>(start), Array(x), Array(y)};
      if constexpr (std::is_integral_v<C>)
        scan_exactly(lines, reversed, running, x.device());
      else
        scan(lines, reversed, running, x.device());
    });
  });
}

void cumsum(Inputs in, Outputs out, const op::Cumsum::Attrs& attrs) {
  run_along<Plus>(in[0], out[0], attrs.dim, attrs.reversed, 0);
}

void cumprod(Inputs in, Outputs out, const op::Cumprod::Attrs& attrs) {
  run_along<Times>(in[0], out[0], attrs.dim, false, 1);
}

void cumprod_backward(Inputs in, Outputs out, const op::CumprodBackward::Attrs& attrs) {
  const Tensor g = row_major(in[0]), x = row_major(in[1]);
  const Lines lines = lines_along(x.shape(), attrs.dim);
  visit_floating_compute(out[0].dtype(), [&]<class C>(std::type_identity<C>) {
    const Tensor room = workspace(x.numel() * static_cast<std::int64_t>(sizeof(C)), x.device());
    C* const tails = static_cast<C*>(room.raw_data());
    scan(lines, true, Tails<C>{Array(g), Array(x), tails, lines.length, lines.inner}, x.device());
    scan(lines, false, TimesBefore<C>{Array(x), Array(out[0]), tails}, x.device());
  });
}

}  // namespace

void attach_scan() {
  attach<op::Cumprod, cumprod>();
  attach<op::CumprodBackward, cumprod_backward>();
  attach<op::Cumsum, cumsum>();
}

}  // namespace mezzo::gpu
