// Kernels of the ops on class indices, and ClassTargets.
#include "classes_cpu.h"

#include <algorithm>

#include "../../core/dispatch.h"
#include "../loss/cross_entropy.h"
#include "../norm/softmax_line_cpu.h"
#include "classes.h"
#include "index_list_cpu.h"

namespace mezzo::cpu_kernels {

Tensor class_indices(const Tensor& target) {
  const CastScope no_casts(nullptr);
  return target.detach().to(DType::i64).contiguous();
}

void require_class_range(std::string_view op_name, const Tensor& target, std::int64_t classes,
                         std::int64_t ignore_index) {
  const std::int64_t* t = target.data<std::int64_t>();
  const auto refused = [&](std::int64_t c) {
    return static_cast<std::uint64_t>(c) >= static_cast<std::uint64_t>(classes) &&
           c != ignore_index;
  };
  // Fast path: if all are in range, this is one loop without branches.
  bool bad = false;
  for (std::int64_t i = 0; i < target.numel(); ++i) bad |= refused(t[i]);
  if (!bad) return;
  std::int64_t first = 0;
  while (!refused(t[first])) ++first;
  op::fail_class(op_name, target.shape(), first, t[first], classes, ignore_index);
}

template <class C> C ClassTargets<C>::total_weight() const {
  constexpr std::int64_t kPiece = 1024;
  alignas(64) C piece[kPiece];
  C total = 0;
  for (std::int64_t begin = 0; begin < lines(); begin += kPiece) {
    const std::int64_t n = std::min(kPiece, lines() - begin);
    for (std::int64_t i = 0; i < n; ++i)
      piece[i] = ignored(begin + i) ? C(0) : weight_of(begin + i);
    total += line_sum(piece, n);
  }
  return total;
}

template class ClassTargets<float>;
template class ClassTargets<double>;

}  // namespace mezzo::cpu_kernels

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

void OneHot::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  const Tensor classes =
      cpu_kernels::checked_indices(in[0], {"one_hot", out[0], in[0].dim(), attrs.classes});
  const std::int64_t* const at = classes.data<std::int64_t>();
  std::int64_t* const y = out[0].data<std::int64_t>();
  std::fill(y, y + out[0].numel(), 0);
  for (std::int64_t i = 0; i < classes.numel(); ++i) y[i * attrs.classes + at[i]] = 1;
}

}  // namespace mezzo::op
