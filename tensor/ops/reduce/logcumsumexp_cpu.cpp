// The CPU kernel of logcumsumexp.
#include "logcumsumexp.h"

#include "../../cpu/line_map.h"
#include "../../cpu/log_sum.h"
#include "../shape/copy.h"

namespace mezzo::op {

void Logcumsumexp::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  using namespace cpu_kernels;
  visit_floating_compute(out[0].dtype(), [&]<class C>(std::type_identity<C>) {
    const auto line = [&](const C* const* x, C* y, std::int64_t n) {
      auto upto = LogSum<C>::none();
      for (std::int64_t k = 0; k < n; ++k) {
        const std::int64_t i = attrs.reversed ? n - 1 - k : k;
        upto = LogSum<C>::combined(upto, LogSum<C>::of(x[0][i]));
        y[i] = upto.value();
      }
    };
    with_row_major(out[0],
                   [&](Tensor& y) { map_lines<C, 1>({row_major(in[0])}, y, attrs.dim, line, 20); });
  });
}

}  // namespace mezzo::op
