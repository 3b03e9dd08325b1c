// Kernels that convert class indices to weights and masks.
#include "../ops/margin_loss.h"

#include <algorithm>

#include "class_targets.h"

namespace mezzo::op {

void ClassWeights::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  visit_floating_compute(attrs.dtype, [&]<class C>(std::type_identity<C>) {
    const cpu_kernels::ClassTargets<C> targets(attrs.op, in[0], in[1], attrs.classes,
                                               attrs.ignore_index);
    std::int64_t* index = out[0].template data<std::int64_t>();
    C* weight = out[1].template data<C>();
    for (std::int64_t line = 0; line < targets.lines(); ++line) {
      const bool ignored = targets.ignored(line);
      index[line] = ignored ? 0 : targets.at(line);
      weight[line] = ignored ? C(0) : targets.weight_of(line);
    }
  });
}

void NamedClasses::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  const Tensor target = cpu_kernels::class_indices(in[0]);
  constexpr std::int64_t kEnd = -1;
  const std::int64_t classes = target.shape().back(), n = target.numel();
  cpu_kernels::require_class_range(attrs.op, target, classes, kEnd);
  const std::int64_t* t = target.data<std::int64_t>();
  bool* named = out[0].data<bool>();
  std::fill(named, named + n, false);
  for (std::int64_t row = 0; row < n; row += classes)
    for (std::int64_t i = 0; i < classes && t[row + i] != kEnd; ++i) named[row + t[row + i]] = true;
}

}  // namespace mezzo::op
