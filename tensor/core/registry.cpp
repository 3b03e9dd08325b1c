#include "registry.h"

#include <algorithm>
#include <vector>

#include "../ops/elementwise/loss_terms.h"
#include "elementwise.h"
#include "elementwise_info.h"

namespace mezzo {

namespace op {
#define MZ_ELEMENTWISE_OPS(name, list)
#define MZ_KERNEL_OPS(family, name) std::span<OpInfo* const> name##_ops();
#define MZ_OPS(family, name) std::span<OpInfo* const> name##_ops();
#include "../ops/list.inc"
#undef MZ_ELEMENTWISE_OPS
#undef MZ_KERNEL_OPS
#undef MZ_OPS
}  // namespace op

namespace {

bool is_linalg(const OpInfo& info) {
  const std::span<OpInfo* const> linalg = op::linalg_ops();
  return std::find(linalg.begin(), linalg.end(), &info) != linalg.end();
}

std::vector<OpInfo*> collect() {
  std::vector<OpInfo*> ops;
  const auto add = [&](std::span<OpInfo* const> list) {
    ops.insert(ops.end(), list.begin(), list.end());
  };
#define MZ_ELEMENTWISE_OPS(name, list) add(infos_of(op::list##Ops{}));
#define MZ_KERNEL_OPS(family, name) add(op::name##_ops());
#define MZ_OPS(family, name) add(op::name##_ops());
#include "../ops/list.inc"
#undef MZ_ELEMENTWISE_OPS
#undef MZ_KERNEL_OPS
#undef MZ_OPS
  std::sort(ops.begin(), ops.end(),
            [](const OpInfo* a, const OpInfo* b) { return a->traits.name < b->traits.name; });
  return ops;
}

}  // namespace

std::span<OpInfo* const> all_ops() {
  static const std::vector<OpInfo*> ops = collect();
  return ops;
}

OpInfo* find_op(std::string_view name) {
  for (OpInfo* info : all_ops())
    if (info->traits.name == name) return info;
  return nullptr;
}

bool takes(const OpInfo& info, DType dtype) {
  const OpTraits& traits = info.traits;
  if (is_low(dtype) && is_linalg(info)) return false;
  if (is_floating(dtype)) return traits.integers != Integers::only;
  // Structured ops accept floating dtypes only, unless they state more. Elementwise ops compute in
  // f32 where they do not keep integers.
  const bool kept = traits.integers == Integers::keep || traits.integers == Integers::only;
  const bool integers = kept || (info.elementwise && traits.integers == Integers::to_float);
  if (dtype != DType::boolean) return integers;
  return integers && (traits.booleans || traits.integers != Integers::keep);
}

}  // namespace mezzo
