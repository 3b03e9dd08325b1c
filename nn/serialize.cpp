#include "serialize.h"

#include <unordered_set>

#include "../tensor/core/dispatch.h"
#include "../tensor/text/text.h"
#include "load.h"

namespace mezzo {

NamedTensors saved_tensors(const nn::Module& module) {
  const NoGradNoCasts plain_ops;
  NamedTensors tensors;
  std::unordered_set<const TensorImpl*> seen;
  for (const nn::detail::Slot& slot : nn::detail::slots_of(module)) {
    if (!seen.insert(slot.tensor.impl()).second) continue;
    const Tensor value = slot.saved_value();
    tensors.emplace_back(slot.name, is_low(value.dtype()) ? value.to(DType::f32) : value);
  }
  return tensors;
}

void save(const std::string& path, const nn::Module& module, const TensorMetadata& metadata) {
  TensorMetadata all = metadata;
  all.emplace("format", "pt");
  save_tensors(path, saved_tensors(module), all);
}

nn::StateDict load_state_dict(const std::string& path) {
  return nn::StateDict(load_tensors(path).tensors);
}

nn::LoadReport load(const std::string& path, const nn::Module& module,
                    const nn::LoadOptions& options) {
  return nn::detail::load_values(str("load(", path, ")"), module, load_state_dict(path), options);
}

}  // namespace mezzo
