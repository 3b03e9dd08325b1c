// The CUDA kernels of cummax and cummin.
#include "../../../tensor/ops/sort/running_extreme.h"

#include "../../../tensor/cpu/order.h"
#include "../../attach.h"
#include "../line_scan.h"

namespace mezzo::gpu {

namespace {

using namespace cpu_kernels;

/** The best element so far: the last of equal ones, NaN included. */
template <class C, class Reaches> struct RunningExtreme {
  struct State {
    C value;
    std::int64_t index;  // negative: no element
  };
  Array x, y;
  std::int64_t* indices;

  __device__ State identity() const { return {C(0), -1}; }
  __device__ State load(std::int64_t place, std::int64_t, std::int64_t i) const {
    return {x.load<C>(place), i};
  }
  __device__ State combine(State a, State b) const {
    if (a.index < 0 || b.index < 0) return b.index < 0 ? a : b;
    return Reaches{}(b.value, a.value) ? b : a;
  }
  __device__ void store(std::int64_t place, std::int64_t, std::int64_t, State, State upto) const {
    y.store<C>(place, upto.value);
    indices[place] = upto.index;
  }
  bool aligned() const {
    return has_aligned_items(x) && has_aligned_items(y) &&
           reinterpret_cast<std::uintptr_t>(indices) % 16 == 0;
  }
  __device__ void load_items(std::int64_t place, std::int64_t i, State* items) const {
    C values[kScanItems];
    load_adjacent(x, place, values);
#pragma unroll
    for (int k = 0; k < kScanItems; ++k) items[k] = {values[k], i + k};
  }
  __device__ void store_items(std::int64_t place, const State* upto) const {
    C values[kScanItems];
#pragma unroll
    for (int k = 0; k < kScanItems; ++k) values[k] = upto[k].value;
    store_adjacent(y, place, values);
#pragma unroll
    for (int k = 0; k < kScanItems; k += 2)
      *reinterpret_cast<Pack<std::int64_t, 2>*>(indices + place +
                                                k) = {{upto[k].index, upto[k + 1].index}};
  }
};

template <class Reaches>
void run_extreme(const Tensor& operand, Outputs out, std::int64_t wanted, const char* op) {
  const Tensor x = row_major(operand);
  const Lines lines = lines_along(x.shape(), wrap_dim(wanted, x.dim(), op));
  visit_compute(x.dtype(), [&]<class C>(std::type_identity<C>) {
    scan_exactly(
        lines, false,
        RunningExtreme<C, Reaches>{Array(x), Array(out[0]), out[1].template data<std::int64_t>()},
        x.device());
  });
}

void cummax(Inputs in, Outputs out, const op::RunningExtremeAttrs& attrs) {
  run_extreme<ReachesUp>(in[0], out, attrs.dim, "cummax");
}

void cummin(Inputs in, Outputs out, const op::RunningExtremeAttrs& attrs) {
  run_extreme<ReachesDown>(in[0], out, attrs.dim, "cummin");
}

}  // namespace

void attach_running_extreme() {
  attach<op::Cummax, cummax>();
  attach<op::Cummin, cummin>();
}

}  // namespace mezzo::gpu
