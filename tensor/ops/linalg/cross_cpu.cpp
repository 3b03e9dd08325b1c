// Kernel of the vector product: one pass over six strided operand components and three strided
// result components.
#include "cross.h"

#include "../../cpu/block_map.h"

namespace mezzo::op {

namespace {

using namespace cpu_kernels;

template <class C>
void cross_block(const C* const* in, C* const* out, std::int64_t n, const void*) {
  for (std::size_t i = 0; i < 3; ++i) {
    const std::size_t j = (i + 1) % 3, k = (i + 2) % 3;
    const C *aj = in[j], *ak = in[k], *bj = in[3 + j], *bk = in[3 + k];
    C* y = out[i];
    for (std::int64_t e = 0; e < n; ++e) y[e] = cross_component(aj[e], ak[e], bj[e], bk[e]);
  }
}

}  // namespace

void Cross::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  CrossComponents all = cross_components(in, out[0], attrs.dim);
  constexpr BlockFns fns{&cross_block<float>, &cross_block<double>, &cross_block<std::int64_t>};
  map_blocks(fns, compute_dtype(out[0].dtype()), all.operands, all.results, nullptr);
}

}  // namespace mezzo::op
