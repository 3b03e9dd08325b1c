#include "class_targets.h"

#include "../ops/cross_entropy.h"
#include "softmax_line.h"

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
