#include "line_scales.h"

#include <limits>

#include "../core/compute_type.h"
#include "../core/dispatch.h"
#include "../core/elementwise_info.h"
#include "../math/safe_sum.h"
#include "../ops/elementwise/arithmetic.h"
#include "../ops/reduce/statistics.h"

namespace mezzo::cpu_kernels {

std::optional<ScaledLines> scaled_lines(const Tensor& x, std::uint32_t dims,
                                        const std::vector<char>& wanted, bool by_least) {
  const DType dtype = compute_dtype(x.dtype());
  Tensor scale = empty_tensor(op::reduced_shape(x.shape(), {dims, true}), dtype, x.device());
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  op::VectorNorm::cpu({&x, 1}, {&scale, 1},
                      {.p = by_least ? -kInfinity : kInfinity, .dims = dims, .keepdim = true});
  bool changes = false;
  visit_floating_compute(dtype, [&]<class C>(std::type_identity<C>) {
    C* factors = scale.data<C>();
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      factors[i] = wanted[i] != 0 ? math::scale_of(factors[i]) : C(1);
      changes |= factors[i] != C(1);
    }
  });
  if (!changes) return {};
  Tensor scaled = empty_tensor(x.shape(), dtype, x.device());
  const Tensor operands[] = {x, scale};
  constexpr NoAttrs kNone;
  op_info<op::Mul>.kernel[0](op_info<op::Mul>, {operands, 2}, {&scaled, 1}, &kNone);
  return ScaledLines{scaled, scale};
}

}  // namespace mezzo::cpu_kernels
