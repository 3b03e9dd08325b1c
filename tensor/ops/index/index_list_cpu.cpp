#include "index_list_cpu.h"

#include <algorithm>

#include "../../core/dispatch.h"
#include "../shape/copy.h"
#include "gather.h"

namespace mezzo::cpu_kernels {

namespace {

/** Checks that lowest <= value < target.size for all values. */
void require_range(const Tensor& values, std::int64_t lowest, const IndexTarget& target) {
  const std::int64_t* v = values.data<std::int64_t>();
  const auto count = static_cast<std::uint64_t>(target.size - lowest);
  const auto outside = [&](std::int64_t value) {
    return static_cast<std::uint64_t>(value) - static_cast<std::uint64_t>(lowest) >= count;
  };
  // Fast path: if all are in range, this is one loop without branches.
  bool bad = false;
  for (std::int64_t i = 0; i < values.numel(); ++i) bad |= outside(v[i]);
  if (!bad) return;
  std::int64_t first = 0;
  while (!outside(v[first])) ++first;
  const TensorMeta into{target.x.shape(), target.x.dtype(), target.x.device()};
  op::fail_index({target.op, values.shape(), into, target.dim, lowest, target.size}, first,
                 v[first]);
}

Tensor as_i64(const Tensor& index) {
  const CastScope no_casts(nullptr);
  return index.detach().to(DType::i64).contiguous();
}

}  // namespace

Tensor checked_indices(const Tensor& index, const IndexTarget& target) {
  const Tensor values = as_i64(index);
  require_range(values, 0, target);
  return values;
}

Tensor wrapped_indices(const Tensor& index, const IndexTarget& target) {
  const Tensor values = as_i64(index);
  require_range(values, -target.size, target);
  Tensor out = empty_tensor(values.shape(), DType::i64, cpu);
  const std::int64_t* from = values.data<std::int64_t>();
  std::int64_t* to = out.data<std::int64_t>();
  for (std::int64_t i = 0; i < values.numel(); ++i)
    to[i] = from[i] < 0 ? from[i] + target.size : from[i];
  return out;
}

Tensor at_least_1d(const Tensor& x) {
  return x.dim() == 0 ? alias(x, {1}, {1}, x.impl()->offset) : x.detach();
}

void copy_values(const Tensor& from, const Tensor& to) {
  const Tensor operands[] = {to, from};
  Tensor result = to;
  op::Copy::cpu(operands, {&result, 1}, {});
}

void start_from(const Tensor& x, const Tensor& out) {
  const bool in_place = x.raw_data() == out.raw_data();
  if (!in_place) copy_values(x, out);
}

std::vector<std::int64_t> offset_table(std::span<const std::int64_t> sizes,
                                       std::span<const std::int64_t> strides) {
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end())
    return {};  // empty, even if the product of the other sizes is huge
  std::vector<std::int64_t> table{0};
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    std::vector<std::int64_t> next;
    next.reserve(table.size() * static_cast<std::size_t>(sizes[d]));
    for (const std::int64_t base : table)
      for (std::int64_t i = 0; i < sizes[d]; ++i) next.push_back(base + i * strides[d]);
    table = std::move(next);
  }
  return table;
}

}  // namespace mezzo::cpu_kernels
