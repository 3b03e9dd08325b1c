#include "class_targets.h"

#include <limits>

#include "softmax_line.h"

namespace mezzo::cpu_kernels {

namespace {

[[noreturn]] void fail_class(std::string_view op, const Tensor& target, std::int64_t at, std::int64_t classes,
                             std::int64_t ignore_index) {
  Shape place = target.shape();
  std::int64_t rest = at;
  for (int i = place.rank() - 1; i >= 0; --i) {
    place[i] = rest % target.shape()[i];
    rest /= target.shape()[i];
  }
  const std::string range = classes == 0 ? std::string("no class") : str("0..", classes - 1);
  const bool ignores = ignore_index != std::numeric_limits<std::int64_t>::min();
  fail<IndexError>(op, {.what = "class out of range",
                        .got = str(target.data<std::int64_t>()[at], " at target", place),
                        .expected = ignores ? str(range, ", or ignore_index ", ignore_index) : range});
}

}  // namespace

Tensor class_indices(const Tensor& target) {
  const CastScope no_casts(nullptr);
  return target.detach().to(DType::i64).contiguous();
}

void require_class_range(std::string_view op, const Tensor& target, std::int64_t classes,
                         std::int64_t ignore_index) {
  const std::int64_t* t = target.data<std::int64_t>();
  const auto refused = [&](std::int64_t c) {
    return static_cast<std::uint64_t>(c) >= static_cast<std::uint64_t>(classes) && c != ignore_index;
  };
  // The common case, all inside, is one loop without branches.
  bool bad = false;
  for (std::int64_t i = 0; i < target.numel(); ++i) bad |= refused(t[i]);
  if (!bad) return;
  std::int64_t first = 0;
  while (!refused(t[first])) ++first;
  fail_class(op, target, first, classes, ignore_index);
}

template <class C> C ClassTargets<C>::total_weight() const {
  constexpr std::int64_t kPiece = 1024;
  alignas(64) C piece[kPiece];
  C total = 0;
  for (std::int64_t begin = 0; begin < lines(); begin += kPiece) {
    const std::int64_t n = std::min(kPiece, lines() - begin);
    for (std::int64_t i = 0; i < n; ++i) piece[i] = ignored(begin + i) ? C(0) : weight_of(begin + i);
    total += line_sum(piece, n);
  }
  return total;
}

template class ClassTargets<float>;
template class ClassTargets<double>;

}  // namespace mezzo::cpu_kernels
