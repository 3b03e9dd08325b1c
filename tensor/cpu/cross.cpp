// Kernel of the vector product: components are six strided operands and three strided results of one pass.
#include "../ops/cross.h"

#include "../elementwise/formula.h"
#include "block_map.h"

namespace mezzo::op {

namespace {

using namespace cpu_kernels;

template <class C> void cross_block(const C* const* in, C* const* out, std::int64_t n, const void*) {
  for (std::size_t i = 0; i < 3; ++i) {
    const std::size_t j = (i + 1) % 3, k = (i + 2) % 3;
    const C *aj = in[j], *ak = in[k], *bj = in[3 + j], *bk = in[3 + k];
    C* y = out[i];
    for (std::int64_t e = 0; e < n; ++e) y[e] = minus(times(aj[e], bk[e]), times(ak[e], bj[e]));
  }
}

/** Component `i` of the vectors along dimension `dim`, which is counted from the last one. */
Tensor component(const Tensor& x, int from_last, std::int64_t i) {
  const int dim = x.dim() - 1 - from_last;
  Shape shape = x.shape();
  Strides strides = x.strides();
  const std::int64_t offset = x.impl()->offset + i * strides[dim];
  shape[dim] = 1;
  return alias(x, shape, strides, offset);
}

}  // namespace

void Cross::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  const int from_last = out[0].dim() - 1 - wrap_dim(attrs.dim, out[0].dim(), "cross");
  std::array<Tensor, 6> operands;
  std::array<Tensor, 3> results;
  for (std::size_t i = 0; i < 3; ++i) {
    operands[i] = component(in[0], from_last, static_cast<std::int64_t>(i));
    operands[3 + i] = component(in[1], from_last, static_cast<std::int64_t>(i));
    results[i] = component(out[0], from_last, static_cast<std::int64_t>(i));
  }
  constexpr BlockFns fns{&cross_block<float>, &cross_block<double>, &cross_block<std::int64_t>};
  map_blocks(fns, compute_dtype(out[0].dtype()), operands, results, nullptr);
}

}  // namespace mezzo::op
